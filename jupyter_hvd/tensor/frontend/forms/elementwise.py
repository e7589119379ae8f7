"""Functions entry by entry, with broadcasting."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ...derivative.primitives import NUMPY
from ...language.function import Function
from .table import build, form


def _primitive(f: Function) -> Callable[..., Any]:
    if f.arity == 1:
        return lambda t, x: t.mapped(f.name, x)
    return lambda t, x, y: t.mapped(f.name, x, y)


for _name, _f in NUMPY.items():
    form(_name)(_primitive(_f))


def _operation(op: str) -> Callable[..., Any]:
    return lambda t, x, y: t.computed(op, x, y)


def _comparison(op: str) -> Callable[..., Any]:
    return lambda t, x, y: t._compare(op, x, y)


for _names, _op in (
    (("add",), "+"),
    (("subtract",), "-"),
    (("multiply",), "*"),
    (("divide",), "/"),
    (("floor_divide",), "//"),
    (("mod", "remainder"), "%"),
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


@form("positive", "float64", "float32", "float_")
def positive(t: Any, x: Any) -> Any:
    """`x`."""
    return build(t, "astype", x)


@form("asarray")
def asarray(t: Any, x: Any, dtype: Any = None) -> Any:
    """`x`, which is no copy where it is an array."""
    return t.whole(x) if t.is_array(x) and not t.lists_of(x) else build(t, "array", x, dtype)


@form("fmax")
def fmax(t: Any, x: Any, y: Any) -> Any:
    """The larger of two, entry by entry; where one is no number, the other."""
    return t.mapped("maximum", *_numbers_first(t, x, y))


@form("fmin")
def fmin(t: Any, x: Any, y: Any) -> Any:
    """The smaller of two, entry by entry; where one is no number, the other."""
    return t.mapped("minimum", *_numbers_first(t, x, y))


def _numbers_first(t: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """Each of two, and the other where it is no number."""
    x, y = t.once(t.whole(x), "x"), t.once(t.whole(y), "y")
    here, there = (t._compare("==", side, side) for side in (x, y))
    return t.chosen(here, x, y), t.chosen(there, y, x)


@form("clip", method=True)
def clip(t: Any, x: Any, low: Any = None, high: Any = None, **named: Any) -> Any:
    """`minimum(maximum(x, low), high)`."""
    low = named.pop("a_min", named.pop("min", low))
    high = named.pop("a_max", named.pop("max", high))
    if named:
        raise t.error(f"`clip` takes no {', '.join(named)}")
    made = x if low is None else t.mapped("maximum", x, low)
    made = made if high is None else t.mapped("minimum", made, high)
    return t.clipped_within(x, low, high, made)


@form("where")
def where(t: Any, test: Any, then: Any = None, other: Any = None) -> Any:
    """`a if p else b`, entry by entry."""
    if then is None or other is None:
        raise t.error(
            "`where` of a condition alone makes a size that data decide", "give both values"
        )
    return t.chosen(test, then, other)


@form("select")
def select(t: Any, condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """The value of the first condition that holds: `a if p else b if q else default`, entry by entry."""
    tests, values = (list(t.several(t.listed(x))) for x in (condlist, choicelist))
    if len(tests) != len(values) or not tests:
        raise t.error("`select` takes a value for each condition, one or more")
    if any(t.numbers_of(test) != "bool" for test in tests):
        raise t.error("`select` takes conditions, not numbers", "compare them: `x > 0`")
    for test, value in reversed(list(zip(tests, values, strict=True))):
        default = t.chosen(test, value, default)
    return default


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


@form("silu", "swish")
def silu(t: Any, x: Any) -> Any:
    """`x·sigmoid(x)`."""
    x = t.once(t.whole(x))
    return t.computed("*", x, t.mapped("sigmoid", x))


@form("leaky_relu")
def leaky_relu(t: Any, x: Any, negative_slope: Any = 0.01) -> Any:
    """`x if x >= 0 else slope·x`."""

    def one(v: Any, slope: Any) -> Any:
        v = t.once(v, "v")
        return t.chosen(t._compare(">=", v, 0), v, t.computed("*", slope, v))

    return t.spread((x, negative_slope), one)


@form("gelu")
def gelu(t: Any, x: Any, approximate: bool = True) -> Any:
    """`½·x·(1 + tanh(√(2/π)·(x + 0.044715·x³)))`, or `½·x·(1 + erf(x/√2))`."""
    x = t.once(t.whole(x))
    if approximate:
        cube = t.computed("*", 0.044715, t.computed("**", x, 3))
        rate = t.computed("*", 0.7978845608028654, t.computed("+", x, cube))
        inner = t.mapped("tanh", rate)
    else:
        inner = t.mapped("erf", t.computed("*", 0.7071067811865476, x))
    return t.computed("*", t.computed("*", 0.5, x), t.computed("+", 1, inner))


@form("elu")
def elu(t: Any, x: Any, alpha: Any = 1.0) -> Any:
    """`x if x > 0 else alpha·expm1(x)`, whose other side is read at 0 where it is not wanted."""

    def one(v: Any, alpha: Any) -> Any:
        v = t.once(v, "v")
        test = t.once(t._compare(">", v, 0), "chosen")
        low = t.mapped("expm1", t.chosen(test, 0, v))
        return t.chosen(test, v, t.computed("*", alpha, low))

    return t.spread((x, alpha), one)


@form("selu")
def selu(t: Any, x: Any) -> Any:
    """`1.0507·elu(x, 1.6733)`."""
    return t.computed("*", 1.0507009873554805, elu(t, x, 1.6732632423543772))


@form("log_sigmoid")
def log_sigmoid(t: Any, x: Any) -> Any:
    """`-softplus(-x)`."""
    return t.negative(t.mapped("softplus", t.negative(t.whole(x))))


@form("relu6")
def relu6(t: Any, x: Any) -> Any:
    """`minimum(maximum(x, 0), 6)`."""
    return t.mapped("minimum", t.mapped("maximum", x, 0), 6)


@form("hard_tanh")
def hard_tanh(t: Any, x: Any) -> Any:
    """`minimum(maximum(x, -1), 1)`."""
    return t.mapped("minimum", t.mapped("maximum", x, -1), 1)


@form("soft_sign")
def soft_sign(t: Any, x: Any) -> Any:
    """`x/(1 + |x|)`."""
    x = t.once(t.whole(x))
    return t.computed("/", x, t.computed("+", 1, t.mapped("abs", x)))


@form("rsqrt")
def rsqrt(t: Any, x: Any) -> Any:
    """`1/sqrt(x)`."""
    return t.mapped("recip", t.mapped("sqrt", x))


@form("ndtr")
def ndtr(t: Any, x: Any) -> Any:
    """`½·erfc(-x/√2)`, the standard normal's distribution function."""
    return t.computed("*", 0.5, t.mapped("erfc", t.computed("*", -0.7071067811865476, x)))


@form("logit")
def logit(t: Any, x: Any) -> Any:
    """`log(x) - log1p(-x)`."""
    x = t.once(t.whole(x))
    return t.computed("-", t.mapped("log", x), t.mapped("log1p", t.negative(x)))


@form("entr")
def entr(t: Any, x: Any) -> Any:
    """`-x·log(x)`, 0 where x is."""
    x = t.once(t.whole(x))
    return t.negative(t.mapped("xlogy", x, x))


@form("polygamma")
def polygamma(t: Any, n: Any, x: Any) -> Any:
    """The n-th derivative of `digamma`."""
    if not isinstance(n, int) or n < 0:
        raise t.error("`polygamma` takes its order as a constant", "write `polygamma(1, x)`")
    return t.mapped(f"polygamma{n}" if n else "digamma", x)


@form("logaddexp2")
def logaddexp2(t: Any, x: Any, y: Any) -> Any:
    """`logaddexp(x·log 2, y·log 2)/log 2`."""
    made = t.mapped("logaddexp", *(t.computed("*", math.log(2), t.whole(v)) for v in (x, y)))
    return t.computed("*", 1 / math.log(2), made)


@form("betaln")
def betaln(t: Any, a: Any, b: Any) -> Any:
    """`gammaln(a) + gammaln(b) - gammaln(a + b)`."""
    a, b = t.once(t.whole(a)), t.once(t.whole(b))
    both = t.mapped("lgamma", t.computed("+", a, b))
    return t.computed("-", t.computed("+", t.mapped("lgamma", a), t.mapped("lgamma", b)), both)


def _standard(t: Any, x: Any, loc: Any, scale: Any) -> Any:
    return t.computed("/", t.computed("-", x, loc), scale)


@form("norm.logpdf")
def logpdf(t: Any, x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """`-½·((x - loc)/scale)² - log(scale) - ½·log(2π)`, of the normal distribution."""
    z = t.computed("**", _standard(t, x, loc, scale), 2)
    rest = t.computed("+", t.mapped("log", scale), 0.9189385332046727)
    return t.computed("-", t.computed("*", -0.5, z), rest)


@form("norm.pdf")
def pdf(t: Any, x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """`exp(logpdf(x))`."""
    return t.mapped("exp", logpdf(t, x, loc, scale))


@form("norm.cdf")
def cdf(t: Any, x: Any, loc: Any = 0, scale: Any = 1) -> Any:
    """`ndtr((x - loc)/scale)`."""
    return ndtr(t, _standard(t, x, loc, scale))


@form("ceil")
def ceil(t: Any, x: Any) -> Any:
    """`-floor(-x)`."""
    return t.negative(t.mapped("floor", t.negative(t.whole(x))))


@form("round", "around", "rint", method=True)
def round_(t: Any, x: Any, decimals: int = 0) -> Any:
    """The nearest whole number, of two the even one; with decimals, `round(x·10**d)/10**d`."""
    if not isinstance(decimals, int):
        raise t.error("`round` takes a constant", "write `np.round(x, 2)`")
    there, back = ("*", "/") if decimals >= 0 else ("/", "*")
    scale = 10 ** abs(decimals)
    if scale == 1:
        return t.mapped("rint", x)
    return t.computed(back, t.mapped("rint", t.computed(there, x, scale)), scale)


@form("heaviside")
def heaviside(t: Any, x: Any, half: Any) -> Any:
    """`1 if x > 0 else half if x == 0 else 0`."""

    def one(v: Any, half: Any) -> Any:
        v = t.once(v, "v")
        return t.chosen(t._compare("==", v, 0), half, t._compare(">", v, 0))

    return t.spread((x, half), one)


@form("stop_gradient")
def stop_gradient(t: Any, x: Any) -> Any:
    """x, whose derivative is zero."""
    return t.mapped("stopped", x)


@form("deg2rad", "radians")
def radians(t: Any, x: Any) -> Any:
    """`x·π/180`."""
    return t.computed("*", 0.017453292519943295, x)


@form("isnan")
def isnan(t: Any, x: Any) -> Any:
    """`x != x`."""
    x = t.once(t.whole(x), "x")
    return t._compare("!=", x, x)


@form("isinf")
def isinf(t: Any, x: Any) -> Any:
    """`|x| == ∞`."""
    return t._compare("==", t.mapped("abs", x), math.inf)


@form("isposinf")
def isposinf(t: Any, x: Any) -> Any:
    """`x == ∞`."""
    return t._compare("==", t.whole(x), math.inf)


@form("isneginf")
def isneginf(t: Any, x: Any) -> Any:
    """`x == -∞`."""
    return t._compare("==", t.whole(x), -math.inf)


@form("isfinite")
def isfinite(t: Any, x: Any) -> Any:
    """`|x| < ∞`."""
    return t._compare("<", t.mapped("abs", x), math.inf)


@form("isclose")
def isclose(t: Any, a: Any, b: Any, rtol: Any = 1e-5, atol: Any = 1e-8) -> Any:
    """`|a - b| <= atol + rtol·|b|`; infinities are close to their like alone."""
    a, b = t.once(t.whole(a), "a"), t.once(t.whole(b), "b")
    apart = t.mapped("abs", t.computed("-", a, b))
    most = t.computed("+", atol, t.computed("*", rtol, t.mapped("abs", b)))
    close = t._both(isfinite(t, b), t._compare("<=", apart, most))
    return t._either_of(t._compare("==", a, b), close)


@form("nan_to_num")
def nan_to_num(t: Any, x: Any, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    """x, and numbers for what is none: of infinities the largest of float64, which in float32 stay what they are."""
    x = t.once(t.whole(x), "x")
    made = t.chosen(isnan(t, x), nan, x)
    for infinite, given, largest in ((isposinf, posinf, LARGEST), (isneginf, neginf, -LARGEST)):
        made = t.chosen(infinite(t, x), largest if given is None else given, made)
    return made


@form("copysign")
def copysign(t: Any, x: Any, y: Any) -> Any:
    """`|x|` with the sign of y, of zeros the positive one."""
    return t.spread((x, y), lambda a, b: _with_sign(t, t.mapped("abs", a), b))


def _with_sign(t: Any, size: Any, sign: Any) -> Any:
    size = t.once(size, "size")
    return t.chosen(t._compare("<", sign, 0), t.negative(size), size)


LARGEST = 1.7976931348623157e308  # of float64
