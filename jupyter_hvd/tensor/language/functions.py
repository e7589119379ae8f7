"""The black boxes `f(e,…)`: scalar functions that the language calls but does not look into.

Each knows how to compute itself, and its partial derivatives as terms over its arguments. A
derivative that is no black box of this table becomes one, with that term as its `body` (`tanh′`,
`∂0pow`): the paper's cost model charges one call for `Df` (6.6), and so do we.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .terms import Term

PARAMETERS = ("x", "y", "z", "w")


@dataclass(frozen=True, eq=False)
class Function:
    """A black box of `arity` scalars; equal functions are one object.

    `compute` works on floats and, where the function is rational, on fractions. `body`, where
    there is one, is the function as a term over the variables x, y, z, … `partials` gives the
    derivative by each argument, or None where it is zero.
    """

    name: str
    arity: int
    compute: Callable[..., Any] = field(repr=False)
    partials: Callable[[tuple[Term, ...]], tuple[Term | None, ...]] = field(repr=False)
    body: Term | None = field(default=None, repr=False)

    def __reduce__(self) -> tuple[Callable[[str], Function], tuple[str]]:
        return named, (self.name,)


def _recip(x: Any) -> Any:
    return Fraction(1, x) if isinstance(x, int) else 1 / x


def _sign(x: Any) -> int:
    return int(x > 0) - int(x < 0)


def _call(name: str, *arguments: Term) -> Term:
    from .terms import Call

    return Call(named(name), arguments)


def _negated(e: Term) -> Term:
    from .terms import Const, Mul

    return Mul(Const(-1), e)


def defined(name: str, arity: int, body: Term) -> Function:
    """The black box whose value is the scalar term `body` over the first `arity` of x, y, z, …"""
    from ..reference.evaluate import Environment, evaluate

    if name in _TABLE:
        return _TABLE[name]
    parameters = parameter_names(arity)

    def compute(*arguments: Any) -> Any:
        return evaluate(body, Environment(dict(zip(parameters, arguments, strict=True))))

    @cache
    def derivatives() -> tuple[Function | None, ...]:
        return tuple(_derivative_of(name, arity, body, k) for k in range(arity))

    def partials(arguments: tuple[Term, ...]) -> tuple[Term | None, ...]:
        from .terms import Call

        return tuple(None if d is None else Call(d, arguments) for d in derivatives())

    return _register(Function(name, arity, compute, partials, body))


def parameter_names(arity: int) -> tuple[str, ...]:
    """The variables that the body of a black box of that arity is written in."""
    return PARAMETERS[:arity] if arity <= len(PARAMETERS) else tuple(f"x{k}" for k in range(arity))


def _derivative_of(name: str, arity: int, body: Term, k: int) -> Function | None:
    from ..derivative.forward import differential
    from .terms import Const

    derivative = differential(body, {parameter_names(arity)[k]: Const(1)})
    if derivative is None:
        return None
    return defined(f"{name}′" if arity == 1 else f"∂{k}{name}", arity, derivative)


def total(f: Function, active: tuple[int, ...]) -> Function:
    """`Df(X; dX)` as one black box (6.6): the arguments of f, then a differential for each
    active one.
    """
    from ..derivative.forward import differential
    from .terms import Call, Var
    from .types import REAL

    names = parameter_names(f.arity + len(active))
    body = Call(f, tuple(Var(x, REAL) for x in names[: f.arity]))
    sigma = {names[k]: Var(names[f.arity + j], REAL) for j, k in enumerate(active)}
    derivative = differential(body, sigma, fused=False)
    assert derivative is not None
    marks = "" if len(active) == f.arity else "".join(map(str, active))
    return defined(f"D{marks}{f.name}", f.arity + len(active), derivative)


def cotangent(f: Function, k: int) -> Function:
    """`Dᵀf(X, dY)` for argument k, as one black box (6.47): the arguments of f, then the
    cotangent of its value.
    """
    from .terms import Mul, Var
    from .types import REAL

    *arguments, dy = (Var(x, REAL) for x in parameter_names(f.arity + 1))
    partial = f.partials(tuple(arguments))[k]
    assert partial is not None
    return defined(f"Dᵀ{k}{f.name}", f.arity + 1, Mul(partial, dy))


def _unary(
    name: str, compute: Callable[[Any], Any], derivative: Callable[[Term], Term | None]
) -> None:
    """Enter a black box whose derivative costs at most two operations, which the bound of 4 has
    room for.
    """
    _register(Function(name, 1, compute, lambda arguments: (derivative(arguments[0]),)))


def _opaque(
    name: str, arity: int, compute: Callable[..., Any], *bodies: Callable[..., Term | None]
) -> None:
    """Enter a black box whose partial derivatives are black boxes of their own."""

    @cache
    def derivatives() -> tuple[Function | None, ...]:
        from .terms import Var
        from .types import REAL

        variables = [Var(x, REAL) for x in parameter_names(arity)]
        prime = [f"{name}′"] if arity == 1 else [f"∂{k}{name}" for k in range(arity)]
        made = [body(*variables) for body in bodies]
        return tuple(
            None if body is None else defined(label, arity, body)
            for label, body in zip(prime, made, strict=True)
        )

    def partials(arguments: tuple[Term, ...]) -> tuple[Term | None, ...]:
        from .terms import Call

        return tuple(None if d is None else Call(d, arguments) for d in derivatives())

    _register(Function(name, arity, compute, partials))


def _register(f: Function) -> Function:
    return _TABLE.setdefault(f.name, f)


def named(name: str) -> Function:
    """The black box of that name; KeyError where there is none."""
    if name not in _TABLE:
        _derive_by_name(name)
    return _TABLE[name]


def _derive_by_name(name: str) -> None:
    """Make the derived black box that a printed program names before anything here has needed
    it.
    """
    if name.endswith("′"):
        named(name[:-1]).partials(_variables(1))
    elif name.startswith("∂"):
        base = named(name[2:])
        base.partials(_variables(base.arity))
    elif name.startswith("Dᵀ"):
        cotangent(named(name[3:]), int(name[2]))
    elif name.startswith("D"):
        marks = name[1:][: len(name[1:]) - len(name[1:].lstrip("0123456789"))]
        base = named(name[1 + len(marks) :])
        total(base, tuple(map(int, marks)) or tuple(range(base.arity)))


def _variables(arity: int) -> tuple[Term, ...]:
    from .terms import Var
    from .types import REAL

    return tuple(Var(x, REAL) for x in parameter_names(arity))


def _power(x: Any, y: Any) -> Any:
    exact = isinstance(x, int | Fraction) and isinstance(y, int | Fraction) and y == int(y)
    return Fraction(x) ** int(y) if exact else x**y


def _formula(text: str) -> Callable[..., Term]:
    """A partial derivative written as the printer writes it, over x and y."""

    def read(*_variables: Term) -> Term:
        from .parser import parse
        from .types import REAL

        return parse(text, dict.fromkeys(PARAMETERS, REAL))

    return read


def _zero(*_arguments: Term) -> None:
    return None


_TABLE: dict[str, Function] = {}

_unary("sin", math.sin, lambda x: _call("cos", x))
_unary("cos", math.cos, lambda x: _negated(_call("sin", x)))
_unary("exp", math.exp, lambda x: _call("exp", x))
_unary("log", math.log, lambda x: _call("recip", x))
_unary("sinh", math.sinh, lambda x: _call("cosh", x))
_unary("cosh", math.cosh, lambda x: _call("sinh", x))
_unary("abs", abs, lambda x: _call("sign", x))
_unary("sign", _sign, _zero)
_unary("floor", math.floor, _zero)
_opaque("recip", 1, _recip, _formula("-1·recip(x)·recip(x)"))
_opaque("sqrt", 1, math.sqrt, _formula("1/2·recip(sqrt(x))"))
_opaque("tan", 1, math.tan, _formula("1 + tan(x)·tan(x)"))
_opaque("tanh", 1, math.tanh, _formula("1 + -1·tanh(x)·tanh(x)"))
_opaque("atan", 1, math.atan, _formula("recip(1 + x·x)"))
_opaque("asin", 1, math.asin, _formula("recip(sqrt(1 + -1·x·x))"))
_opaque("acos", 1, math.acos, _formula("-1·recip(sqrt(1 + -1·x·x))"))
_opaque("erf", 1, math.erf, _formula(f"{2 / math.sqrt(math.pi)!r}·exp(-1·x·x)"))
_opaque("expm1", 1, math.expm1, _formula("exp(x)"))
_opaque("log1p", 1, math.log1p, _formula("recip(1 + x)"))
_opaque("pow", 2, _power, _formula("y·pow(x, y + -1)"), _formula("pow(x, y)·log(x)"))
_opaque("atan2", 2, math.atan2, _formula("y·recip(x·x + y·y)"), _formula("-1·x·recip(x·x + y·y)"))
_opaque("greater", 2, lambda x, y: int(x > y) + Fraction(int(x == y), 2), _zero, _zero)
_opaque("maximum", 2, max, _formula("greater(x, y)"), _formula("greater(y, x)"))
_opaque("minimum", 2, min, _formula("greater(y, x)"), _formula("greater(x, y)"))

NAMES = frozenset(_TABLE)
