"""Functions entry by entry, with broadcasting."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .table import build, form


def _operation(op: str) -> Callable[..., Any]:
    return lambda t, x, y: t.computed(op, x, y)


def _comparison(op: str) -> Callable[..., Any]:
    return lambda t, x, y: t._compare(op, x, y)


for _names, _op in (
    (("add",), "+"),
    (("subtract",), "-"),
    (("multiply",), "*"),
    (("divide",), "/"),
):
    form(*_names)(_operation(_op))
for _name, _op in (
    *(("less", "<"), ("less_equal", "<="), ("greater", ">"), ("greater_equal", ">=")),
    *(("equal", "=="), ("not_equal", "!=")),
):
    form(_name)(_comparison(_op))


@form("square")
def square(t: Any, x: Any) -> Any:
    """`x·x`, entry by entry."""
    return t.computed("**", x, 2)


@form("power", "pow", "float_power")
def power(t: Any, x: Any, y: Any) -> Any:
    """`x**y`; small whole powers are products."""
    return t.computed("**", x, y)


@form("negative")
def negative(t: Any, x: Any) -> Any:
    """`-x`."""
    return t.negative(x)


@form("positive", "asarray", "float64", "float32", "float_")
def positive(t: Any, x: Any, dtype: Any = None) -> Any:
    """`x`."""
    return build(t, "astype", x)


@form("abs", "absolute", "fabs")
def absolute(t: Any, x: Any) -> Any:
    """`|x|`, entry by entry."""
    return t.mapped("abs", x)


@form("maximum", "fmax")
def maximum(t: Any, x: Any, y: Any) -> Any:
    """The larger of two, entry by entry."""
    return t.mapped("maximum", x, y)


@form("minimum", "fmin")
def minimum(t: Any, x: Any, y: Any) -> Any:
    """The smaller of two, entry by entry."""
    return t.mapped("minimum", x, y)


@form("clip", method=True)
def clip(t: Any, x: Any, low: Any = None, high: Any = None, **named: Any) -> Any:
    """`minimum(maximum(x, low), high)`."""
    low = named.pop("a_min", named.pop("min", low))
    high = named.pop("a_max", named.pop("max", high))
    if named:
        raise t.error(f"`clip` takes no {', '.join(named)}")
    x = x if low is None else maximum(t, x, low)
    return x if high is None else minimum(t, x, high)


@form("where", "select_n")
def where(t: Any, test: Any, then: Any = None, other: Any = None) -> Any:
    """`a if p else b`, entry by entry."""
    if then is None or other is None:
        raise t.error(
            "`where` of a condition alone makes a size that data decide", "give both values"
        )
    return t.chosen(test, then, other)


@form("logical_and", "bitwise_and")
def logical_and(t: Any, x: Any, y: Any) -> Any:
    """`a and b`, entry by entry."""
    return t._both(x, y)


@form("logical_or", "bitwise_or")
def logical_or(t: Any, x: Any, y: Any) -> Any:
    """`a or b`, entry by entry."""
    return t._either_of(x, y)


@form("logical_not", "bitwise_not", "invert")
def logical_not(t: Any, x: Any) -> Any:
    """`not a`, entry by entry."""
    return t._negated(x)


@form("relu")
def relu(t: Any, x: Any) -> Any:
    """`x if x > 0 else 0`, whose derivative at 0 is 0."""
    return t.spread((x,), lambda v: _kept_above(t, v))


def _kept_above(t: Any, v: Any) -> Any:
    v = t.once(v, "v")
    return t.chosen(t._compare(">", v, 0), v, 0)


@form("sigmoid")
def sigmoid(t: Any, x: Any) -> Any:
    """`½·(1 + tanh(x/2))`, which overflows nowhere."""
    half = t.mapped("tanh", t.computed("/", x, 2))
    return t.computed("/", t.computed("+", 1, half), 2)


@form("logaddexp")
def logaddexp(t: Any, x: Any, y: Any) -> Any:
    """`maximum(x, y) + log1p(exp(-|x - y|))`."""

    def one(a: Any, b: Any) -> Any:
        a, b = t.once(a, "a"), t.once(b, "b")
        apart = t.mapped("abs", t.computed("-", a, b))
        rest = t.mapped("log1p", t.mapped("exp", t.negative(apart)))
        return t.computed("+", t.mapped("maximum", a, b), rest)

    return t.spread((x, y), one)


@form("softplus")
def softplus(t: Any, x: Any) -> Any:
    """`logaddexp(x, 0)`."""
    return logaddexp(t, x, 0)


@form("silu", "swish")
def silu(t: Any, x: Any) -> Any:
    """`x·sigmoid(x)`."""
    x = t.once(t.whole(x))
    return t.computed("*", x, sigmoid(t, x))


@form("leaky_relu")
def leaky_relu(t: Any, x: Any, negative_slope: Any = 0.01) -> Any:
    """`x if x >= 0 else slope·x`."""

    def one(v: Any, slope: Any) -> Any:
        v = t.once(v, "v")
        return t.chosen(t._compare(">=", v, 0), v, t.computed("*", slope, v))

    return t.spread((x, negative_slope), one)


@form("stop_gradient")
def stop_gradient(t: Any, x: Any) -> Any:
    """x, whose derivative is zero."""
    return t.mapped("stopped", x)


@form("deg2rad", "radians")
def radians(t: Any, x: Any) -> Any:
    """`x·π/180`."""
    return t.computed("*", 0.017453292519943295, x)


@form("nan_to_num")
def nan_to_num(t: Any, x: Any) -> Any:
    """Refused: there are no missing entries."""
    raise t.error(
        "the language has no missing entries", "`np.where(present, x, 0)` under a boolean array"
    )
