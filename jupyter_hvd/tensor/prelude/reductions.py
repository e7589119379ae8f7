"""Sums along axes, and what is made of them."""

from __future__ import annotations

import numpy as np

from .axes import along, axes_of, count_of
from .definitions import Array, array, jax, numpy, scipy
from .primitives import finite, largest, stopped


@array.mean
def mean(x: Array, axis=None, keepdims=False, where=True):
    return np.sum(x, axis, keepdims=keepdims, where=where) / _counted(
        x.shape, axis, keepdims, where
    )


def _counted(shape, axis, keepdims, where):
    """How many entries there are along axes, or how many where a condition holds."""
    if where is True or where is None:
        return count_of(shape, axis)
    return np.sum(np.broadcast_to(where, shape), axis, keepdims=keepdims)


@numpy.average
def average(x: Array, axis=None, weights: Array = None):
    if weights is None:
        return np.mean(x, axis)
    return np.sum(x * weights, axis) / np.sum(weights, None if weights.ndim == 1 else axis)


@array.var
def var(x: Array, axis=None, ddof=0, keepdims=False, where=True):
    """`sum((x - mean(x))**2) / (n - ddof)`."""
    apart = x - np.mean(x, axis, keepdims=True, where=where)
    count = _counted(x.shape, axis, keepdims, where)
    squares = np.sum(apart**2, axis, keepdims=keepdims, where=where)
    return squares / (count - ddof if ddof else count)


@array.std
def std(x: Array, axis=None, ddof=0, keepdims=False, where=True):
    return np.sqrt(np.var(x, axis, ddof=ddof, keepdims=keepdims, where=where))


@numpy.count_nonzero
def count_nonzero(x: Array, axis=None, keepdims=False):
    return np.sum(x != 0, axis, keepdims=keepdims)


@numpy.ptp
def ptp(x: Array, axis=None, keepdims=False):
    return np.max(x, axis, keepdims=keepdims) - np.min(x, axis, keepdims=keepdims)


@numpy.allclose
def allclose(a: Array, b: Array, rtol=1e-5, atol=1e-8):
    return np.all(np.isclose(a, b, rtol, atol))


# Without what is no number


@numpy.nansum
def nansum(x: Array, axis=None, keepdims=False):
    return np.sum(np.where(x == x, x, 0), axis, keepdims=keepdims)


@numpy.nanprod
def nanprod(x: Array, axis=None, keepdims=False):
    return np.prod(np.where(x == x, x, 1), axis, keepdims=keepdims)


@numpy.nanmean
def nanmean(x: Array, axis=None, keepdims=False):
    return np.nansum(x, axis, keepdims=keepdims) / np.sum(x == x, axis, keepdims=keepdims)


@numpy.nanmax
def nanmax(x: Array, axis=None, keepdims=False):
    return np.max(np.where(x == x, x, -np.inf), axis, keepdims=keepdims)


@numpy.nanmin
def nanmin(x: Array, axis=None, keepdims=False):
    return np.min(np.where(x == x, x, np.inf), axis, keepdims=keepdims)


@numpy.nanvar
def nanvar(x: Array, axis=None, ddof=0, keepdims=False):
    present = x == x
    apart = np.where(present, x - np.nanmean(x, axis, keepdims=True), 0)
    count = np.sum(present, axis, keepdims=keepdims)
    return np.sum(apart**2, axis, keepdims=keepdims) / (count - ddof if ddof else count)


@numpy.nanstd
def nanstd(x: Array, axis=None, ddof=0, keepdims=False):
    return np.sqrt(np.nanvar(x, axis, ddof=ddof, keepdims=keepdims))


# Without the largest entry, which is a constant to the derivative


@jax.nn.logsumexp
@scipy.special.logsumexp
def logsumexp(x: Array, axis=None, b=None, keepdims=False):
    """`log(sum(b*exp(x - top))) + top`; of what is infinite, `top` is 0."""
    top = finite(largest(x, axis, keepdims=True))
    e = np.exp(x - top)
    spread = np.sum(e if b is None else b * e, axis, keepdims=keepdims)
    return np.log(spread) + (top if keepdims else np.squeeze(top, axes_of(x.ndim, axis)))


@jax.nn.softmax
def softmax(x: Array, axis=-1):
    e = np.exp(x - stopped(largest(x, axis, keepdims=True)))
    return e / np.sum(e, axis, keepdims=True)


@scipy.special.softmax
def softmax_of_all(x: Array, axis=None):
    """`softmax`, over all axes where none is named."""
    e = np.exp(x - stopped(largest(x, axis, keepdims=True)))
    return e / np.sum(e, axis, keepdims=True)


@jax.nn.log_softmax
def log_softmax(x: Array, axis=-1):
    """`z - log(sum(exp(z)))` with `z = x - top`."""
    z = x - stopped(largest(x, axis, keepdims=True))
    return z - np.log(np.sum(np.exp(z), axis, keepdims=True))


@scipy.special.log_softmax
def log_softmax_of_all(x: Array, axis=None):
    """`log_softmax`, over all axes where none is named; of what is infinite, `top` is 0."""
    z = x - finite(largest(x, axis, keepdims=True))
    return z - np.log(np.sum(np.exp(z), axis, keepdims=True))


# Of samples


@numpy.trapezoid
@numpy.trapz
def trapezoid(y: Array, x: Array = None, dx=1.0, axis=-1):
    """`sum(½·(y[i] + y[i + 1])·(x[i + 1] - x[i]))`."""
    (k,) = axes_of(y.ndim, axis)
    width = dx
    if x is not None and x.ndim == 1:
        width = np.diff(x)[(..., *[None] * (y.ndim - 1 - k))]
    elif x is not None:
        width = np.diff(x, axis=k)
    both = y[along(k, slice(None, -1))] + y[along(k, slice(1, None))]
    return np.sum(0.5 * both * width, k)


@numpy.polyval
def polyval(p, x: Array):
    """`(p[0]·x + p[1])·x + …`, by Horner's rule."""
    first, *rest = p
    made = first if x.ndim == 0 else 0.0 * x + first
    for c in rest:
        made = made * x + c
    return made


@numpy.cov
def cov(m: Array, y: Array = None, rowvar=True, bias=False, ddof=None):
    """`d @ d.T / (n - 1)`, d being the rows without their means."""
    rows = [x if rowvar or x.ndim < 2 else x.T for x in (m, y) if x is not None]
    x = rows[0] if y is None else np.vstack(rows)
    if x.ndim > 2:
        raise ValueError("m has more than 2 dimensions")
    apart = x - np.mean(x, -1, keepdims=True)
    less = ddof if ddof is not None else 0 if bias else 1
    return np.inner(apart, apart) / (x.shape[-1] - less)


@numpy.corrcoef
def corrcoef(x: Array, y: Array = None, rowvar=True):
    c = np.cov(x, y, rowvar)
    if c.ndim == 0:
        return c / c
    d = np.sqrt(np.diagonal(c))
    return c / np.outer(d, d)
