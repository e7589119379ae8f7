"""The table of elementary functions: scalar functions that programs call, and that passes treat as primitives."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np

Point = tuple[float, ...]
Interval = tuple[float, float]
#: What computes a function with the functions of a namespace, `numpy` or `jax.numpy`.
Kernel = Callable[..., Any]

INF = math.inf
NAN = math.nan
REALS: Interval = (-INF, INF)
POSITIVE: Interval = (0, INF)


@dataclass(frozen=True, eq=False)
class Elementary:
    """A row of the table.

    `compute` takes Python floats and, if the function is rational, ints and fractions. `slopes` are the partial derivatives
    in
    the printer's notation, over x, y, z. `numpy` has the names in NumPy, `math`, SciPy and JAX by which programs call the
    function; a function without one is internal. In JAX it is `jax`, a path in the package, or `kernel`.
    """

    name: str
    compute: Callable[..., Any]
    slopes: tuple[str, ...]
    numpy: tuple[str, ...] = ()
    jax: str = ""
    kernel: Kernel | None = None
    #: Open intervals, one for each argument, in which it is finite and smooth but for `kinks`.
    domain: tuple[Interval, ...] = ()
    #: Values at points of interest: 0, infinities, ends of the domain.
    special: Mapping[Point, float] = field(default_factory=dict)
    #: Points at which it has no derivative, and what the partial derivatives are there by convention.
    kinks: Mapping[Point, Point] = field(default_factory=dict)
    #: Whether a derivative costs at most two operations, so that it is written out and no function of its own.
    simple: bool = False
    #: Whether JAX's derivative is the same, so that JAX may take it.
    slope_of_jax: bool = False
    #: Whether it is an instruction or two of a processor.
    cheap: bool = False

    @property
    def arity(self) -> int:
        """The number of arguments."""
        return len(self.slopes)


TABLE: dict[str, Elementary] = {}
#: Functions by a prefix of their names and a number: the derivatives of `sinc` are `sinc1`, `sinc2`, …
FAMILIES: dict[str, Callable[[int], Elementary]] = {}


@cache
def find_elementary(name: str) -> Elementary | None:
    """Return the row of a name, or of a member of a family; None where there is none."""
    if name in TABLE:
        return TABLE[name]
    family = name.rstrip("0123456789")
    if family in FAMILIES and family != name:
        return FAMILIES[family](int(name[len(family) :]))
    return None


def _enter_function(name: str, compute: Callable[..., Any], *slopes: str, **more: Any) -> None:
    """Add a function with its partial derivatives in the printer's notation."""
    more["numpy"] = tuple(more.get("numpy", "").split())
    more.setdefault("domain", (REALS,) * len(slopes))
    TABLE[name] = Elementary(name, compute, slopes, **more)


def _enter_internal(name: str, compute: Callable[..., Any], *slopes: str, **more: Any) -> None:
    """Add a function that programs cannot call by name; all of these are cheap: step functions or selections."""
    _enter_function(name, compute, *slopes, **{"cheap": True, "simple": len(slopes) == 1, **more})


# How functions are computed on Python's numbers


def _extend_math_function(
    of_one: Callable[..., float], beyond: Callable[..., Any]
) -> Callable[..., float]:
    """Extend a function of `math` to return what NumPy does where `math` raises: outside its domain, and on overflow."""

    def compute(*arguments: Any) -> float:
        try:
            return of_one(*arguments)
        except (ValueError, OverflowError):
            with np.errstate(all="ignore"):
                return float(beyond(*map(float, arguments)))

    return compute


def _reciprocal(x: Any) -> Any:
    """Compute 1/x; exactly for an integer or fraction, ±inf for 0."""
    if x == 0:
        return math.copysign(math.inf, x)
    return Fraction(1, x) if isinstance(x, int) else 1 / x


def _round_finite(rounded: Callable[[Any], int]) -> Callable[[Any], Any]:
    """Wrap a rounding function so that it returns infinities and NaN unchanged."""
    return lambda x: rounded(x) if math.isfinite(x) else x


def _sign(x: Any) -> Any:
    """Compute the sign of x: -1, 0 or 1; NaN for NaN."""
    return x if x != x else int(x > 0) - int(x < 0)


def _power(x: Any, y: Any) -> Any:
    """Compute x**y; exactly for fractions with an integer exponent."""
    exact = isinstance(x, int | Fraction) and isinstance(y, int | Fraction) and y == int(y)
    if exact and x != 0:
        return Fraction(x) ** int(y)
    with np.errstate(all="ignore"):
        return x**y if exact and y >= 0 else float(np.power(float(x), float(y)))


def _propagate_nan(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Wrap Python's binary `max` or `min` so that it returns NaN if an argument is NaN."""
    return lambda x, y: x if x != x else y if y != y else function(x, y)


def _divide_safely(divide: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Wrap a division with remainder so that division by zero returns what NumPy's floats do."""

    def compute(x: Any, y: Any) -> Any:
        if y != 0:
            return divide(x, y)
        with np.errstate(all="ignore"):
            return float(divide(np.float64(x), np.float64(y)))

    return compute


def _fmod(x: Any, y: Any) -> Any:
    """Compute the remainder of x/y with the sign of x; exactly for fractions."""
    if isinstance(x, int | Fraction) and isinstance(y, int | Fraction) and y != 0:
        return x - y * math.trunc(Fraction(x) / y)
    with np.errstate(all="ignore"):
        return float(np.fmod(float(x), float(y)))


def _compute_by_kernel(kernel: Kernel) -> Callable[..., float]:
    """Return a function that computes a kernel with NumPy."""

    def compute(*arguments: Any) -> float:
        with np.errstate(all="ignore"):
            return float(kernel(np, *map(np.float64, arguments)))

    return compute


def _gamma(compute_one: Callable[[float], float]) -> Callable[[Any], float]:
    """Return a function that computes `compute_one`, and inf at its poles."""

    def compute(x: Any) -> float:
        try:
            return compute_one(x)
        except ValueError:  # a pole
            return math.inf

    return compute


# Circular and hyperbolic functions

_ANGLE = dict.fromkeys(((INF,), (-INF,)), NAN)


def _enter_smooth(name: str, beyond: Callable[..., Any], *slopes: str, **more: Any) -> None:
    """Enter a function of `math`."""
    of_one = getattr(math, name)
    names = more.pop("numpy", name)
    more.setdefault("jax", f"numpy.{names.split()[0]}")
    _enter_function(name, _extend_math_function(of_one, beyond), *slopes, numpy=names, **more)


_enter_smooth("sin", np.sin, "cos(x)", simple=True, slope_of_jax=True, special={(0,): 0, **_ANGLE})
_enter_smooth(
    "cos", np.cos, "-1·sin(x)", simple=True, slope_of_jax=True, special={(0,): 1, **_ANGLE}
)
_enter_smooth(
    "tan",
    np.tan,
    "1 + tan(x)·tan(x)",
    slope_of_jax=True,
    domain=((-math.pi / 2, math.pi / 2),),
    special={(0,): 0, **_ANGLE},
)
_enter_smooth(
    "asin",
    np.arcsin,
    "recip(sqrt((1 + -1·x)·(1 + x)))",
    numpy="arcsin asin",
    domain=((-1, 1),),
    special={(0,): 0, (1,): math.pi / 2, (-1,): -math.pi / 2, (2,): NAN},
)
_enter_smooth(
    "acos",
    np.arccos,
    "-1·recip(sqrt((1 + -1·x)·(1 + x)))",
    numpy="arccos acos",
    domain=((-1, 1),),
    special={(0,): math.pi / 2, (1,): 0, (-1,): math.pi, (2,): NAN},
)
_enter_smooth(
    "atan",
    np.arctan,
    "recip(1 + x·x)",
    numpy="arctan atan",
    slope_of_jax=True,
    special={(0,): 0, (INF,): math.pi / 2, (-INF,): -math.pi / 2},
)
_enter_smooth(
    "atan2",
    np.arctan2,
    "y·recip(x·x + y·y)",
    "-1·x·recip(x·x + y·y)",
    numpy="arctan2 atan2",
    domain=(REALS, POSITIVE),
    special={(0, 1): 0, (1, 0): math.pi / 2, (INF, INF): math.pi / 4},
)
_enter_smooth(
    "sinh", np.sinh, "cosh(x)", simple=True, slope_of_jax=True, special={(0,): 0, (-INF,): -INF}
)
_enter_smooth(
    "cosh", np.cosh, "sinh(x)", simple=True, slope_of_jax=True, special={(0,): 1, (-INF,): INF}
)
_enter_smooth(
    "tanh",
    np.tanh,
    "1 + -1·tanh(x)·tanh(x)",
    slope_of_jax=True,
    special={(0,): 0, (INF,): 1, (-INF,): -1},
)
_enter_smooth(
    "asinh",
    np.arcsinh,
    "recip(sqrt(1 + x·x))",
    numpy="arcsinh asinh",
    slope_of_jax=True,
    special={(0,): 0, (-INF,): -INF},
)
_enter_smooth(
    "acosh",
    np.arccosh,
    "recip(sqrt((-1 + x)·(1 + x)))",
    numpy="arccosh acosh",
    domain=((1, INF),),
    special={(1,): 0, (INF,): INF, (0,): NAN},
)
_enter_smooth(
    "atanh",
    np.arctanh,
    "recip((1 + -1·x)·(1 + x))",
    numpy="arctanh atanh",
    domain=((-1, 1),),
    special={(0,): 0, (1,): INF, (-1,): -INF, (2,): NAN},
)


def _sinc(n: int) -> Elementary:
    """Return the n-th derivative of `sin(πx)/(πx)`.

    Away from 0 it uses `x·s⁽ᵏ⁾ + k·s⁽ᵏ⁻¹⁾ = sin⁽ᵏ⁾`; near 0, where that cancels, the series of the n-th derivative.
    """

    def kernel(xp: Any, x: Any) -> Any:
        x = math.pi * x
        near = xp.abs(x) < n + 2 if n else x == 0
        safe = xp.where(near, xp.ones_like(x), x)
        sines = (xp.sin(safe), xp.cos(safe), -xp.sin(safe), -xp.cos(safe))
        away = sines[0] / safe
        for k in range(1, n + 1):
            away = (sines[k % 4] - k * away) / safe
        if not n:
            return xp.where(near, xp.ones_like(x), away)
        t = xp.where(near, x, xp.zeros_like(x))
        series = xp.zeros_like(x)
        for c in reversed(_sinc_series(n)):
            series = series * t * t + c
        return math.pi**n * xp.where(near, series * t if n % 2 else series, away)

    special: dict[Point, float] = {(0.0,): math.pi**n * _sinc_series(n)[0] * (1 - n % 2)}
    name = f"sinc{n}" if n else "sinc"
    numpy = () if n else ("sinc",)
    slopes = (f"sinc{n + 1}(x)",)
    return Elementary(
        name, _compute_by_kernel(kernel), slopes, numpy, "", kernel, (REALS,), special, simple=True
    )


def _sinc_series(n: int) -> list[float]:
    """Return the coefficients of the n-th derivative of `sin(x)/x`, for the powers n % 2, n % 2 + 2, …"""
    terms = range((n + 1) // 2, (n + 1) // 2 + 16 + n)
    return [(-1) ** m * math.perm(2 * m, n) / math.factorial(2 * m + 1) for m in terms]


FAMILIES["sinc"] = _sinc
TABLE["sinc"] = _sinc(0)

# Exponentials and logarithms

_GROWTH = {(0,): 1, (INF,): INF, (-INF,): 0}
_LOGARITHM = {(0,): -INF, (1,): 0, (INF,): INF, (-1,): NAN}

_enter_smooth("exp", np.exp, "exp(x)", simple=True, slope_of_jax=True, special=_GROWTH)
_enter_smooth(
    "expm1",
    np.expm1,
    "exp(x)",
    slope_of_jax=True,
    special={(0,): 0, (INF,): INF, (-INF,): -1},
)
_enter_function(
    "exp2",
    _extend_math_function(lambda x: 2.0 ** float(x), np.exp2),
    f"{math.log(2)!r}·exp2(x)",
    numpy="exp2",
    jax="numpy.exp2",
    special={**_GROWTH, (3,): 8},
)
_enter_smooth(
    "log",
    np.log,
    "recip(x)",
    simple=True,
    slope_of_jax=True,
    domain=(POSITIVE,),
    special=_LOGARITHM,
)
_enter_smooth(
    "log1p",
    np.log1p,
    "recip(1 + x)",
    slope_of_jax=True,
    domain=((-1, INF),),
    special={(0,): 0, (-1,): -INF, (INF,): INF, (-2,): NAN},
)
_enter_smooth(
    "log2",
    np.log2,
    f"{1 / math.log(2)!r}·recip(x)",
    domain=(POSITIVE,),
    special={**_LOGARITHM, (8,): 3},
)
_enter_smooth(
    "log10",
    np.log10,
    f"{1 / math.log(10)!r}·recip(x)",
    domain=(POSITIVE,),
    special={**_LOGARITHM, (1000,): 3},
)


def _logistic(xp: Any, x: Any) -> Any:
    """Compute `1/(1 + exp(-x))` with NumPy or JAX, without overflow."""
    small = xp.exp(-xp.abs(x))
    return xp.where(x < 0, small, xp.ones_like(small)) / (1 + small)


def _softplus(xp: Any, x: Any) -> Any:
    """Compute `log(1 + exp(x))` with NumPy or JAX, without overflow."""
    return xp.maximum(x, xp.zeros_like(x)) + xp.log1p(xp.exp(-xp.abs(x)))


def _difference_unless_equal(xp: Any, x: Any, y: Any) -> Any:
    """Compute x - y with NumPy or JAX; 0 where both are equal, also for infinities."""
    return xp.where(x == y, xp.zeros_like(x), x - y)


_enter_function(
    "sigmoid",
    _compute_by_kernel(_logistic),
    "sigmoid(x)·sigmoid(-1·x)",
    numpy="sigmoid expit logistic",
    jax="nn.sigmoid",
    slope_of_jax=True,
    special={(0,): 1 / 2, (INF,): 1, (-INF,): 0},
)
_enter_function(
    "softplus",
    _compute_by_kernel(_softplus),
    "sigmoid(x)",
    numpy="softplus",
    kernel=_softplus,
    simple=True,
    special={(0,): math.log(2), (INF,): INF, (-INF,): 0},
)
_enter_function(
    "logaddexp",
    _compute_by_kernel(lambda xp, x, y: xp.logaddexp(x, y)),
    "sigmoid(apart(x, y))",
    "sigmoid(apart(y, x))",
    numpy="logaddexp",
    kernel=lambda xp, x, y: (
        xp.maximum(x, y) + xp.log1p(xp.exp(-xp.abs(_difference_unless_equal(xp, x, y))))
    ),
    special={
        (0, 0): math.log(2),
        (1, 1): 1 + math.log(2),
        (INF, INF): INF,
        (-INF, -INF): -INF,
        (-INF, 1): 1,
        (INF, -INF): INF,
    },
)
# x·log(y), 0 where x is; its derivative by y is x/y, 0 where x is.
_enter_function(
    "xlogy",
    _compute_by_kernel(lambda xp, x, y: _unless_zero(xp, x, lambda: x * xp.log(y))),
    "log(y)",
    "xdivy(x, y)",
    numpy="xlogy",
    kernel=lambda xp, x, y: _unless_zero(xp, x, lambda: x * xp.log(xp.where(x == 0, 1, y))),
    domain=(REALS, POSITIVE),
    special={(0, 0): 0, (0, 2): 0, (2, 1): 0, (1, 0): -INF},
)
_enter_function(
    "xlog1py",
    _compute_by_kernel(lambda xp, x, y: _unless_zero(xp, x, lambda: x * xp.log1p(y))),
    "log1p(y)",
    "xdivy(x, 1 + y)",
    numpy="xlog1py",
    kernel=lambda xp, x, y: _unless_zero(xp, x, lambda: x * xp.log1p(xp.where(x == 0, 1, y))),
    domain=(REALS, (-1, INF)),
    special={(0, -1): 0, (0, 2): 0, (2, 0): 0, (1, -1): -INF},
)
_enter_function(
    "xdivy",
    _compute_by_kernel(lambda xp, x, y: _unless_zero(xp, x, lambda: x / y)),
    "recip(y)",
    "-1·xdivy(xdivy(x, y), y)",
    kernel=lambda xp, x, y: _unless_zero(xp, x, lambda: x / xp.where(x == 0, 1, y)),
    domain=(REALS, POSITIVE),
    special={(0, 0): 0, (0, 2): 0, (1, 0): INF},
)


def _unless_zero(xp: Any, x: Any, value: Callable[[], Any]) -> Any:
    """Compute a value with NumPy or JAX; 0 where x is 0."""
    return xp.where(x == 0, xp.zeros_like(x), value())


# Powers


def _falling_power(n: int) -> Elementary:
    """Return `y·(y - 1)⋯(y - n + 1)·x**(y - n)`, the n-th derivative of `x**y` by x, and 0 where the product is 0.

    The product is 0 where y is an integer below n. There `x**(y - n)` at x = 0 would give 0·∞.
    """

    def compute(x: Any, y: Any) -> Any:
        product = math.prod(y - k for k in range(n))
        return 0 if product == 0 else product * _power(x, y - n)

    def kernel(xp: Any, x: Any, y: Any) -> Any:
        product = xp.ones_like(y)
        for k in range(n):
            product = product * (y - k)
        exponent = xp.where(product == 0, xp.zeros_like(y), y - n)
        return xp.where(product == 0, xp.zeros_like(y), product * xp.power(x, exponent))

    # By the exponent it is 0 where x is, whose logarithm is minus infinity.
    of_product = f" + ({_falling_product_slope(n)})·pow(x, y + {-n})" if n else ""
    slopes = f"pow{n + 1}(x, y)", f"pow{n or ''}(x, y)·log(x + equal(x, 0)){of_product}"
    if n:
        return Elementary(
            f"pow{n}",
            compute,
            slopes,
            kernel=kernel,
            domain=(POSITIVE, REALS),
            special={(0, n - 1): 0},
        )
    return Elementary(
        "pow",
        _power,
        slopes,
        ("pow", "power", "float_power"),
        "numpy.power",
        domain=(POSITIVE, REALS),
        special={(0, 0): 1, (0, 2): 0, (0, -1): INF, (-2, 3): -8, (-2, 0.5): NAN, (INF, 0): 1},
    )


def _falling_product_slope(n: int) -> str:
    """Return the derivative of `y·(y - 1)⋯(y - n + 1)` in Horner's form."""
    coefficients = [0, 1]  # of the product, the constant first
    for k in range(1, n):
        shifted = [0, *coefficients]
        coefficients = [a - k * b for a, b in zip(shifted, [*coefficients, 0], strict=True)]
    slope = [k * c for k, c in enumerate(coefficients)][1:]
    text = str(slope[-1])
    for c in reversed(slope[:-1]):
        text = f"{c} + y·({text})"
    return text


FAMILIES["pow"] = _falling_power
TABLE["pow"] = _falling_power(0)

_enter_function(
    "recip",
    _reciprocal,
    "-1·recip(x)·recip(x)",
    numpy="reciprocal",
    kernel=lambda xp, x: xp.ones_like(x) / x,
    slope_of_jax=True,
    domain=(POSITIVE,),
    special={(0,): INF, (INF,): 0, (-INF,): 0},
)
_enter_smooth(
    "sqrt",
    np.sqrt,
    "1/2·recip(sqrt(x))",
    slope_of_jax=True,
    domain=(POSITIVE,),
    special={(0,): 0, (INF,): INF, (-1,): NAN},
)
_enter_smooth(
    "cbrt",
    np.cbrt,
    "1/3·recip(cbrt(x)·cbrt(x))",
    domain=(POSITIVE,),
    special={(0,): 0, (-8,): -2, (INF,): INF},
)
# Its derivative at 0, where it has none, is 0.
_enter_smooth(
    "hypot",
    np.hypot,
    "xdivy(x, hypot(x, y))",
    "xdivy(y, hypot(x, y))",
    domain=(POSITIVE, REALS),
    special={(0, 0): 0, (3, 4): 5, (INF, NAN): INF, (0, -2): 2},
    kinks={(0, 0): (0, 0)},
)

# Functions of statistics

_enter_smooth(
    "erf",
    math.erf,
    f"{2 / math.sqrt(math.pi)!r}·exp(-1·x·x)",
    jax="scipy.special.erf",
    slope_of_jax=True,
    special={(0,): 0, (INF,): 1, (-INF,): -1},
)
_enter_smooth(
    "erfc",
    math.erfc,
    f"{-2 / math.sqrt(math.pi)!r}·exp(-1·x·x)",
    jax="scipy.special.erfc",
    special={(0,): 1, (INF,): 0, (-INF,): 2},
)
_enter_function(
    "lgamma",
    _gamma(math.lgamma),
    "digamma(x)",
    numpy="gammaln lgamma",
    jax="scipy.special.gammaln",
    simple=True,
    domain=(POSITIVE,),
    special={(0,): INF, (1,): 0, (2,): 0, (5,): math.log(24), (INF,): INF},
)


def _polygamma(n: int) -> Elementary:
    """Return the n-th derivative of `digamma`."""

    def compute(x: Any) -> float:
        from scipy.special import digamma, polygamma  # type: ignore[import-untyped]

        return float(polygamma(n, float(x)) if n else digamma(float(x)))

    name, numpy = (f"polygamma{n}", ()) if n else ("digamma", ("digamma", "psi"))
    slopes = (f"polygamma{n + 1}(x)",)
    jax = f"scipy.special.polygamma:{n}" if n else "scipy.special.digamma"
    special: dict[Point, float] = {(1.0,): -float(np.euler_gamma)} if not n else {}
    return Elementary(name, compute, slopes, numpy, jax, None, (POSITIVE,), special, simple=True)


FAMILIES["polygamma"] = _polygamma
TABLE["digamma"] = _polygamma(0)

# Functions with kinks and steps

_ROUNDING: dict[str, Any] = {"cheap": True, "simple": True, "kinks": {(0,): (0,), (1,): (0,)}}

_enter_function(
    "abs",
    abs,
    "sign(x)",
    numpy="abs absolute fabs",
    jax="numpy.abs",
    simple=True,
    cheap=True,
    special={(0,): 0, (-INF,): INF},
    kinks={(0,): (0,)},
)
_enter_function(
    "sign",
    _sign,
    "0",
    numpy="sign",
    jax="numpy.sign",
    simple=True,
    cheap=True,
    special={(0,): 0, (-INF,): -1},
    kinks={(0,): (0,)},
)
_enter_function(
    "floor",
    _round_finite(math.floor),
    "0",
    numpy="floor",
    jax="numpy.floor",
    special={(-0.5,): -1, (INF,): INF},
    **_ROUNDING,
)
_enter_function(
    "rint",
    _round_finite(round),
    "0",
    numpy="rint",
    jax="numpy.rint",
    special={(0.5,): 0, (1.5,): 2, (-INF,): -INF},
    cheap=True,
    simple=True,
    kinks={(0.5,): (0,)},
)
_enter_function(
    "trunc",
    _round_finite(math.trunc),
    "0",
    numpy="trunc fix",
    jax="numpy.trunc",
    special={(-1.5,): -1, (INF,): INF},
    **_ROUNDING,
)
_enter_function(
    "floor_divide",
    _divide_safely(operator.floordiv),
    "0",
    "0",
    jax="numpy.floor_divide",
    domain=(REALS, POSITIVE),
    special={(-3, 2): -2, (4, 2): 2},
    kinks={(4, 2): (0, 0)},
)
_enter_function(
    "mod",
    _divide_safely(operator.mod),
    "1",
    "-1·floor_divide(x, y)",
    jax="numpy.mod",
    domain=(REALS, POSITIVE),
    special={(-3, 2): 1, (0, 2): 0},
    kinks={(4, 2): (1, -2)},
)
_enter_function(
    "fmod",
    _fmod,
    "1",
    "-1·rint((x + -1·fmod(x, y))·recip(y))",
    numpy="fmod",
    jax="numpy.fmod",
    domain=(REALS, POSITIVE),
    special={(-3, 2): -1, (0, 2): 0, (49, 7): 0, (1, 0): NAN},
    kinks={(4, 2): (1, -2), (0, 2): (1, 0)},
)
_enter_function(
    "maximum",
    _propagate_nan(max),
    "greater(x, y)",
    "greater(y, x)",
    numpy="maximum",
    jax="numpy.maximum",
    cheap=True,
    special={(1, 1): 1, (INF, NAN): NAN, (-INF, 1): 1},
    kinks={(1, 1): (1 / 2, 1 / 2), (INF, INF): (1 / 2, 1 / 2)},
)
_enter_function(
    "minimum",
    _propagate_nan(min),
    "greater(y, x)",
    "greater(x, y)",
    numpy="minimum",
    jax="numpy.minimum",
    cheap=True,
    special={(1, 1): 1, (INF, NAN): NAN, (-INF, 1): -INF},
    kinks={(1, 1): (1 / 2, 1 / 2)},
)

# Comparisons and selections, which the front end and derivatives make

_enter_internal(
    "apart",  # x - y, of equal infinities too
    lambda x, y: 0 if x == y else x - y,
    "1",
    "-1",
    kernel=_difference_unless_equal,
    special={(INF, INF): 0, (1, 1): 0},
)
_enter_internal(
    "greater",
    lambda x, y: int(x > y) + Fraction(int(x == y), 2),
    "0",
    "0",
    kernel=lambda xp, x, y: xp.where(x > y, 1.0, xp.where(x == y, 0.5, 0.0)).astype(x.dtype),
)


def _enter_comparison(name: str, compute: Callable[..., Any], kernel: Kernel, **more: Any) -> None:
    """Add a comparison, whose value is 1 or 0."""

    def as_number(_: Any, x: Any, *rest: Any) -> Any:
        return kernel(x, *rest).astype(x.dtype)

    _enter_internal(name, compute, "0", "0", kernel=as_number, **more)


_enter_comparison("less", lambda x, y: int(x < y), lambda x, y: x < y, slope_of_jax=True)
_enter_comparison("less_equal", lambda x, y: int(x <= y), lambda x, y: x <= y, slope_of_jax=True)
_enter_comparison("equal", lambda x, y: int(x == y), lambda x, y: x == y, slope_of_jax=True)
# `equal` where y is an index and x a whole number that is known to be one, too: there alone `lowering/computed_indices` reads
# and adds up.
_enter_comparison("picks", lambda x, y: int(x == y), lambda x, y: x == y, slope_of_jax=True)
_enter_comparison(
    "ties",
    lambda x, y: int(x == y or (x != x and y != y)),
    lambda x, y: (x == y) | ((x != x) & (y != y)),
)
# What comparisons choose: `kept(c, x)` is x where c is not 0, `dropped(c, x)` where it is.
_enter_internal(
    "kept",
    lambda c, x: x if c else 0,
    "0",
    "kept(x, 1)",
    kernel=lambda xp, c, x: xp.where(c != 0, x, xp.zeros((), x.dtype)),
    slope_of_jax=True,
)
_enter_internal(
    "dropped",
    lambda c, x: 0 if c else x,
    "0",
    "dropped(x, 1)",
    kernel=lambda xp, c, x: xp.where(c != 0, xp.zeros((), x.dtype), x),
    slope_of_jax=True,
)
_enter_internal("stopped", lambda x: x, "0", jax="lax.stop_gradient")
# What is taken off and put back, if it can be.
_enter_internal("finite", lambda x: x if math.isfinite(x) else 0, "0")
# A derivative without a value. Once nothing more is differentiated, `ssa/resolved_derivatives` removes it, and leaves x of
# `stopped(x)`.
_enter_internal("tangent", lambda _x, _w: 0, "y", "0", cheap=False)

#: Those that are an instruction or two.
CHEAP = frozenset(name for name, row in TABLE.items() if row.cheap)
#: Those of which JAX's derivative is the same.
SLOPES_OF_JAX = frozenset(name for name, row in TABLE.items() if row.slope_of_jax)
