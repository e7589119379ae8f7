"""Elementwise functions, with broadcasting."""

from __future__ import annotations

import math

import numpy as np

from .definitions import Array, array, jax, numpy, scipy
from .primitives import Primitive, erf, erfc, lgamma, sigmoid, softplus, xlogy

LARGEST = 1.7976931348623157e308  # of float64


@numpy.square
def square(x):
    """Return `x²`."""
    return x**2


@numpy.float_power
@numpy.pow
@numpy.power
def power(x, y):
    """Return `x**y`."""
    return x**y


@numpy.fmax
def fmax(x: Array, y: Array):
    """Return the larger of two; if one is NaN, the other."""
    return np.maximum(np.where(x == x, x, y), np.where(y == y, y, x))


@numpy.fmin
def fmin(x: Array, y: Array):
    """Return the smaller of two; if one is NaN, the other."""
    return np.minimum(np.where(x == x, x, y), np.where(y == y, y, x))


@numpy.heaviside
def heaviside(x: Array, half):
    """Return 0 for negative x, 1 for positive x, and `half` for 0."""
    return np.where(x == 0, half, x > 0)


@numpy.copysign
def copysign(x: Array, y):
    """Return `|x|` with the sign of y; zeros count as positive."""
    size = abs(x)
    return np.where(y < 0, -size, size)


@numpy.logaddexp2
def logaddexp2(x: Array, y: Array):
    """Return `log2(2**x + 2**y)`."""
    return 1 / math.log(2) * np.logaddexp(math.log(2) * x, math.log(2) * y)


@numpy.ceil
def ceil(x: Array):
    """Return the least integer that is not below x."""
    return -np.floor(-x)


@array.round
@numpy.around
def round_(x: Array, decimals=0):
    """Return the nearest integer, of two the even one; with decimals, `round(x·10**d)/10**d`."""
    if decimals == 0:
        return np.rint(x)
    scale = 10 ** abs(decimals)
    return np.rint(x * scale) / scale if decimals > 0 else np.rint(x / scale) * scale


@numpy.radians
@numpy.deg2rad
def radians(x: Array):
    """Convert degrees to radians."""
    return math.pi / 180 * x


# What is no number


@numpy.isnan
def isnan(x: Array):
    """Return whether x is NaN."""
    return x != x


@numpy.isinf
def isinf(x: Array):
    """Return whether x is infinite."""
    return abs(x) == math.inf


@numpy.isposinf
def isposinf(x: Array):
    """Return whether x is +inf."""
    return x == math.inf


@numpy.isneginf
def isneginf(x: Array):
    """Return whether x is -inf."""
    return x == -math.inf


@numpy.isfinite
def isfinite(x: Array):
    """Return whether x is finite."""
    return abs(x) < math.inf


@numpy.isclose
def isclose(a: Array, b: Array, rtol=1e-5, atol=1e-8):
    """Return `|a - b| <= atol + rtol·|b|`; infinities are close only to themselves."""
    close = np.isfinite(b) & (abs(a - b) <= atol + rtol * abs(b))
    return (a == b) | close


@numpy.nan_to_num
def nan_to_num(x: Array, copy=True, nan=0.0, posinf=None, neginf=None):
    """Replace NaN by `nan`, and infinities by `posinf` and `neginf` or the largest numbers of float64.

    In float32 these are infinite again.
    """
    high, low = LARGEST if posinf is None else posinf, -LARGEST if neginf is None else neginf
    below = np.where(np.isposinf(x), high, np.where(np.isnan(x), nan, x))
    return np.where(np.isneginf(x), low, below)


# Of networks


@jax.nn.relu
def relu(x: Array):
    """Return `max(x, 0)`; its derivative at 0 is 0."""
    return np.where(x > 0, x, 0)


@jax.nn.swish
@jax.nn.silu
def silu(x: Array):
    """Return `x·sigmoid(x)`."""
    return x * sigmoid(x)


@jax.nn.leaky_relu
def leaky_relu(x: Array, negative_slope=0.01):
    """Return x, or `negative_slope·x` for negative x."""
    return np.where(x >= 0, x, negative_slope * x)


@jax.nn.gelu
def gelu(x: Array, approximate=True):
    """Return `½·x·(1 + tanh(√(2/π)·(x + 0.044715·x³)))`, or `½·x·(1 + erf(x/√2))`."""
    if approximate:
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + erf(math.sqrt(0.5) * x))


@jax.nn.elu
def elu(x: Array, alpha=1.0):
    """Return `x if x > 0 else alpha·expm1(x)`."""
    high = x > 0
    return np.where(high, x, alpha * np.expm1(np.where(high, 0, x)))


@jax.nn.selu
def selu(x: Array):
    """Return `1.05·x if x > 0 else 1.76·expm1(x)`."""
    high = x > 0
    low = 1.6732632423543772 * np.expm1(np.where(high, 0, x))
    return 1.0507009873554805 * np.where(high, x, low)


@jax.nn.log_sigmoid
def log_sigmoid(x: Array):
    """Return `log(sigmoid(x))`."""
    return -softplus(-x)


@jax.nn.relu6
def relu6(x: Array):
    """Return `min(max(x, 0), 6)`."""
    return np.minimum(np.maximum(x, 0), 6)


@jax.nn.hard_tanh
def hard_tanh(x: Array):
    """Return `min(max(x, -1), 1)`."""
    return np.minimum(np.maximum(x, -1), 1)


@jax.nn.soft_sign
def soft_sign(x: Array):
    """Return `x / (1 + |x|)`."""
    return x / (1 + abs(x))


@jax.lax.rsqrt
def rsqrt(x: Array):
    """Return `1/√x`."""
    return 1 / np.sqrt(x)


# Of statistics


@scipy.special.ndtr
def ndtr(x: Array):
    """Return the distribution function of the standard normal distribution."""
    return 0.5 * erfc(-math.sqrt(0.5) * x)


@scipy.special.logit
def logit(x: Array):
    """Return `log(x / (1 - x))`."""
    return np.log(x) - np.log1p(-x)


@scipy.special.entr
def entr(x: Array):
    """Return `-x·log(x)`; 0 if x is 0."""
    return -xlogy(x, x)


@scipy.special.polygamma
def polygamma(n, x: Array):
    """Return the n-th derivative of `digamma`; n is a constant."""
    if not isinstance(n, int) or n < 0:
        raise TypeError("takes its order as a constant: `polygamma(1, x)`")
    return Primitive(f"polygamma{n}" if n else "digamma")(x)


@scipy.special.betaln
def betaln(a: Array, b: Array):
    """Return the logarithm of the beta function."""
    return lgamma(a) + lgamma(b) - lgamma(a + b)


@scipy.stats.norm.logpdf
def logpdf(x: Array, loc=0, scale=1):
    """Return the logarithm of the normal distribution's density."""
    rest = np.log(scale) + 0.5 * math.log(2 * math.pi)
    return -0.5 * ((x - loc) / scale) ** 2 - rest


@scipy.stats.norm.pdf
def pdf(x: Array, loc=0, scale=1):
    """Return the normal distribution's density."""
    return np.exp(logpdf(x, loc, scale))


@scipy.stats.norm.cdf
def cdf(x: Array, loc=0, scale=1):
    """Return the normal distribution's distribution function."""
    return ndtr((x - loc) / scale)
