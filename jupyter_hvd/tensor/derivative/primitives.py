"""The primitives of the language, one for each row of the table of elementary functions, and those derived from them.

A derivative that is no row of the table becomes a primitive, too, with the derivative's term as its `body`: the paper's cost
model charges one call for `Df` (6.6), and so do we.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from ..language.function import (
    PARAMETERS,
    Cotangent,
    Derivation,
    Function,
    Partial,
    Total,
    add_function_finder,
    derived_name,
    parameter_names,
    register_function,
)
from ..language.parser import parse
from ..language.terms import Call, Const, Mul, Term, Var, substitute
from ..language.types import REAL
from ..reference.evaluate import Environment, evaluate
from .elementary import TABLE, Elementary, find_elementary
from .forward import differential


def define_primitive(
    name: str, arity: int, body: Term, derivation: tuple[Function, Derivation] | None = None
) -> Function:
    """Return the primitive of a name, whose value is the scalar term `body` over the first `arity` of x, y, z, …"""
    parameters = parameter_names(arity)

    def compute(*arguments: Any) -> Any:
        return evaluate(body, Environment(dict(zip(parameters, arguments, strict=True))))

    def partial_term(k: int) -> Term | None:
        return differential(body, {parameters[k]: Const(1)})

    return _register_primitive(name, arity, compute, partial_term, body=body, derivation=derivation)


def _register_primitive(
    name: str,
    arity: int,
    compute: Callable[..., Any],
    slope: Callable[[int], Term | None],
    *,
    simple: bool = False,
    body: Term | None = None,
    derivation: tuple[Function, Derivation] | None = None,
) -> Function:
    """Register the primitive of a name.

    `slope` gives the partial derivative by an argument, over x, y, z, …; it becomes a separate primitive unless it is
    `simple`.
    """

    def partials(arguments: tuple[Term, ...]) -> tuple[Term | None, ...]:
        if simple:
            e = slope(0)
            return (e and substitute(e, {"x": arguments[0]}),)
        slopes = (f.derived(Partial(k)) for k in range(arity))
        return tuple(None if d is None else Call(d, arguments) for d in slopes)

    @cache
    def derived(how: Derivation) -> Function | None:
        made = slope(how.argument) if isinstance(how, Partial) else _combine_derivative(f, how)
        if made is None:
            return None
        more = len(how.active) if isinstance(how, Total) else isinstance(how, Cotangent)
        return define_primitive(derived_name(f, how), arity + more, made, (f, how))

    f = Function(name, arity, compute, partials, derived, body, derivation)
    return register_function(f)


def _combine_derivative(f: Function, how: Total | Cotangent) -> Term | None:
    """Return the value of `Df` (6.6) or `Dᵀf` (6.47) over x, y, z, …; None where it is zero."""
    if isinstance(how, Total):
        variables = [Var(x, REAL) for x in parameter_names(f.arity + len(how.active))]
        body = Call(f, tuple(variables[: f.arity]))
        sigma = {variables[k].name: variables[f.arity + j] for j, k in enumerate(how.active)}
        return differential(body, sigma, fused=False)
    *arguments, dy = (Var(x, REAL) for x in parameter_names(f.arity + 1))
    partial = f.partials(tuple(arguments))[how.argument]
    return None if partial is None else Mul(partial, dy)


@cache
def _parse_slope(slope: str) -> Term | None:
    """Parse a partial derivative in the table; None for zero."""
    return None if slope == "0" else _parse_scalar(slope)


def _parse_scalar(text: str) -> Term:
    """Parse a term over x, y, z, …"""
    return parse(text, dict.fromkeys(PARAMETERS, REAL))


def _enter_row(row: Elementary) -> Function:
    """Register the primitive of a row of the table."""
    slopes = row.slopes
    return _register_primitive(
        row.name, row.arity, row.compute, lambda k: _parse_slope(slopes[k]), simple=row.simple
    )


def _enter_family_member(name: str) -> Function | None:
    """Enter the primitive of this name from a family such as `polygamma3`; None if there is none."""
    row = find_elementary(name)
    return None if row is None else _enter_row(row)


#: The primitive that a program calls by a name of NumPy's, `math`'s, SciPy's or JAX's.
NUMPY: dict[str, Function] = {}
for _row in TABLE.values():
    NUMPY.update(dict.fromkeys(_row.numpy, _enter_row(_row)))
add_function_finder(_enter_family_member)

#: Slopes as functions of the values: with `y = sqrt(x)` the slope is `1/2·recip(y)`.
BY_VALUE = {
    "sqrt": define_primitive("half_recip", 1, _parse_scalar("1/2·recip(x)")),
    "recip": define_primitive("minus_square", 1, _parse_scalar("-1·x·x")),
}
