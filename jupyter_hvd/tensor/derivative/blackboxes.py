"""The black boxes of the language, and those derived from them.

A derivative that is no black box of this table becomes one, with the derivative's term as its
`body`: the paper's cost model charges one call for `Df` (6.6), and so do we.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

from ..language.errors import TensorError
from ..language.function import (
    PARAMETERS,
    Cotangent,
    Derivation,
    Function,
    Partial,
    Total,
    derived_name,
    names,
    parameter_names,
    register,
)
from ..language.parser import parse
from ..language.terms import Call, Const, Mul, Term, Var, substitute
from ..language.types import REAL
from ..language.whole_functions import PREFIX, WHOLE
from ..reference.evaluate import Environment, evaluate
from .forward import differential


def defined(
    name: str, arity: int, body: Term, derivation: tuple[Function, Derivation] | None = None
) -> Function:
    """The black box of that name, whose value is the scalar term `body` over the first `arity` of
    x, y, z, …
    """
    parameters = parameter_names(arity)

    def compute(*arguments: Any) -> Any:
        return evaluate(body, Environment(dict(zip(parameters, arguments, strict=True))))

    def slope(k: int) -> Term | None:
        return differential(body, {parameters[k]: Const(1)})

    return _register(name, arity, compute, slope, body=body, derivation=derivation)


def _register(
    name: str,
    arity: int,
    compute: Callable[..., Any],
    slope: Callable[[int], Term | None],
    *,
    simple: bool = False,
    body: Term | None = None,
    derivation: tuple[Function, Derivation] | None = None,
) -> Function:
    """The black box of that name. `slope` gives the partial derivative by an argument, over x, y,
    z, …; it becomes a black box of its own unless it is `simple`.
    """

    def partials(arguments: tuple[Term, ...]) -> tuple[Term | None, ...]:
        if simple:
            e = slope(0)
            return (e and substitute(e, {"x": arguments[0]}),)
        slopes = (f.derived(Partial(k)) for k in range(arity))
        return tuple(None if d is None else Call(d, arguments) for d in slopes)

    @cache
    def derived(how: Derivation) -> Function | None:
        made = slope(how.argument) if isinstance(how, Partial) else _combined(f, how)
        if made is None:
            return None
        more = len(how.active) if isinstance(how, Total) else isinstance(how, Cotangent)
        return defined(derived_name(f, how), arity + more, made, (f, how))

    f = Function(name, arity, compute, partials, derived, body, derivation)
    return register(f)


def _combined(f: Function, how: Total | Cotangent) -> Term | None:
    """The value of `Df` (6.6) or `Dᵀf` (6.47) over x, y, z, …; None where it is zero."""
    if isinstance(how, Total):
        variables = [Var(x, REAL) for x in parameter_names(f.arity + len(how.active))]
        body = Call(f, tuple(variables[: f.arity]))
        sigma = {variables[k].name: variables[f.arity + j] for j, k in enumerate(how.active)}
        return differential(body, sigma, fused=False)
    *arguments, dy = (Var(x, REAL) for x in parameter_names(f.arity + 1))
    partial = f.partials(tuple(arguments))[how.argument]
    return None if partial is None else Mul(partial, dy)


def _recip(x: Any) -> Any:
    if x == 0:
        return math.copysign(math.inf, x)
    return Fraction(1, x) if isinstance(x, int) else 1 / x


def _whole(rounded: Callable[[Any], int]) -> Callable[[Any], Any]:
    """A rounding that leaves what is infinite, or no number."""
    return lambda x: rounded(x) if math.isfinite(x) else x


def _sign(x: Any) -> int:
    return int(x > 0) - int(x < 0)


def _power(x: Any, y: Any) -> Any:
    exact = isinstance(x, int | Fraction) and isinstance(y, int | Fraction) and y == int(y)
    if exact and x != 0:
        return Fraction(x) ** int(y)
    with np.errstate(all="ignore"):
        return x**y if exact and y >= 0 else float(np.power(float(x), float(y)))


def _extreme(of: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Python's `max` or `min` of two, and what is no number where one is none."""
    return lambda x, y: x if x != x else y if y != y else of(x, y)


def _divided(divide: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A division with remainder, which by zero gives what NumPy's floats do."""

    def compute(x: Any, y: Any) -> Any:
        if y != 0:
            return divide(x, y)
        with np.errstate(all="ignore"):
            return float(divide(np.float64(x), np.float64(y)))

    return compute


def _precedes(x: Any, y: Any) -> int:
    return int(x < y or (x == x and y != y))


def _precedes_or_ties(x: Any, y: Any) -> int:
    return int(x <= y or y != y)


def _comes_before(x: Any, y: Any, first: Any) -> int:
    return _precedes_or_ties(x, y) if first else _precedes(x, y)


def _lgamma(x: Any) -> float:
    try:
        return math.lgamma(x)
    except ValueError:  # a pole
        return math.inf


def _polygamma(n: int) -> Callable[[Any], float]:
    def compute(x: Any) -> float:
        from scipy.special import polygamma  # type: ignore[import-untyped]

        return float(polygamma(n, float(x)))

    return compute


def _beyond(_: int) -> Term:
    raise TensorError(
        "the fifth derivative of `gammaln`",
        "there are four: `digamma`, `polygamma(1, x)` and two more",
    )


def _of_floats(name: str) -> Callable[..., Any]:
    """A function of `math`, which beyond where it is finite gives what NumPy does."""
    of_one = getattr(math, name)

    def compute(*arguments: Any) -> Any:
        try:
            return of_one(*arguments)
        except (ValueError, OverflowError):
            with np.errstate(all="ignore"):
                return float(getattr(np, _OF_NUMPY.get(name, name))(*map(float, arguments)))

    return compute


_OF_NUMPY = {"asin": "arcsin", "acos": "arccos", "acosh": "arccosh", "atanh": "arctanh"}


def _enter(name: str, arity: int, compute: Callable[..., Any], *slopes: str) -> None:
    """Enter a black box with its partial derivatives as the printer writes them, over x and y."""
    _register(name, arity, compute, lambda k: _read(slopes[k]))


def _enter_simple(name: str, compute: Callable[[Any], Any], slope: str) -> None:
    """Enter a black box whose derivative costs at most two operations, which the bound of 4 has
    room for.
    """
    _register(name, 1, compute, lambda _: _read(slope), simple=True)


@cache
def _read(slope: str) -> Term | None:
    return None if slope == "0" else _scalar(slope)


def _scalar(text: str) -> Term:
    """A term over x, y, z, …"""
    return parse(text, dict.fromkeys(PARAMETERS, REAL))


_enter_simple("sin", _of_floats("sin"), "cos(x)")
_enter_simple("cos", _of_floats("cos"), "-1·sin(x)")
_enter_simple("exp", _of_floats("exp"), "exp(x)")
_enter_simple("log", _of_floats("log"), "recip(x)")
_enter_simple("sinh", _of_floats("sinh"), "cosh(x)")
_enter_simple("cosh", _of_floats("cosh"), "sinh(x)")
_enter_simple("abs", abs, "sign(x)")
_enter_simple("sign", _sign, "0")
_enter_simple("floor", _whole(math.floor), "0")
_enter_simple("rint", _whole(round), "0")
_enter_simple("trunc", _whole(math.trunc), "0")
_enter("floor_divide", 2, _divided(operator.floordiv), "0", "0")
_enter("mod", 2, _divided(operator.mod), "1", "-1·floor_divide(x, y)")
_enter_simple("lgamma", _lgamma, "digamma(x)")
_enter_simple("digamma", _polygamma(0), "polygamma1(x)")
_enter_simple("polygamma1", _polygamma(1), "polygamma2(x)")
_enter_simple("polygamma2", _polygamma(2), "polygamma3(x)")
_register("polygamma3", 1, _polygamma(3), _beyond, simple=True)
_enter("recip", 1, _recip, "-1·recip(x)·recip(x)")
_enter("sqrt", 1, _of_floats("sqrt"), "1/2·recip(sqrt(x))")
_enter("tan", 1, _of_floats("tan"), "1 + tan(x)·tan(x)")
_enter("tanh", 1, math.tanh, "1 + -1·tanh(x)·tanh(x)")
_enter("atan", 1, math.atan, "recip(1 + x·x)")
_enter("asin", 1, _of_floats("asin"), "recip(sqrt(1 + -1·x·x))")
_enter("acos", 1, _of_floats("acos"), "-1·recip(sqrt(1 + -1·x·x))")
_enter("asinh", 1, math.asinh, "recip(sqrt(1 + x·x))")
_enter("acosh", 1, _of_floats("acosh"), "recip(sqrt(-1 + x·x))")
_enter("atanh", 1, _of_floats("atanh"), "recip(1 + -1·x·x)")
_enter("cbrt", 1, math.cbrt, "1/3·recip(cbrt(x)·cbrt(x))")
_enter("erf", 1, math.erf, f"{2 / math.sqrt(math.pi)!r}·exp(-1·x·x)")
_enter("expm1", 1, _of_floats("expm1"), "exp(x)")
_enter("log1p", 1, _of_floats("log1p"), "recip(1 + x)")
# By the exponent it is 0 where x is, whose logarithm is minus infinity.
_enter("pow", 2, _power, "y·pow(x, y + -1)", "pow(x, y)·log(x + equal(x, 0))")
_enter("atan2", 2, math.atan2, "y·recip(x·x + y·y)", "-1·x·recip(x·x + y·y)")
_enter("greater", 2, lambda x, y: int(x > y) + Fraction(int(x == y), 2), "0", "0")
# Comparisons of data, 1 or 0, and what they choose: `kept(c, x)` is x where c is not 0, `dropped(c, x)` where it is.
_enter("less", 2, lambda x, y: int(x < y), "0", "0")
_enter("less_equal", 2, lambda x, y: int(x <= y), "0", "0")
_enter("equal", 2, lambda x, y: int(x == y), "0", "0")
# `equal` where y is an index and x a whole number that is known to be one, too: `lowering/picked` reads and adds up there alone.
_enter("picks", 2, lambda x, y: int(x == y), "0", "0")
# In the order of sorting, in which what is no number comes last, and all of that is alike.
_enter("precedes", 2, _precedes, "0", "0")
_enter("precedes_or_ties", 2, _precedes_or_ties, "0", "0")
_enter("ties", 2, lambda x, y: int(x == y or (x != x and y != y)), "0", "0")
# That of two entries, of which on a tie the first comes first where z is 1: `lowering/ordered` sorts.
_enter("comes_before", 3, _comes_before, "0", "0", "0")
_enter("kept", 2, lambda c, x: x if c else 0, "0", "kept(x, 1)")
_enter("dropped", 2, lambda c, x: 0 if c else x, "0", "dropped(x, 1)")
_enter_simple("stopped", lambda x: x, "0")
# A derivative without a value; once nothing more is differentiated, `ssa/settled` leaves nothing of it, and x of `stopped(x)`.
_enter("tangent", 2, lambda _x, _w: 0, "y", "0")
_enter_simple(
    "finite", lambda x: x if math.isfinite(x) else 0, "0"
)  # what is taken off and put back, if it can be
_enter("maximum", 2, _extreme(max), "greater(x, y)", "greater(y, x)")
_enter("minimum", 2, _extreme(min), "greater(y, x)", "greater(x, y)")

NAMES = names()

for _name, (_, _operands) in WHOLE.items():
    _count = len(_operands)
    _enter(f"{PREFIX}{_name}", 1 + _count, lambda x, *_: x, "1", *["0"] * _count)

#: Slopes as functions of the values: with `y = sqrt(x)` the slope is `1/2·recip(y)`.
BY_VALUE = {
    "sqrt": defined("half_recip", 1, _scalar("1/2·recip(x)")),
    "recip": defined("minus_square", 1, _scalar("-1·x·x")),
}
