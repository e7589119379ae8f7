"""Sums along axes, and what is made of them."""

from __future__ import annotations

import numpy as np

from ..language.errors import TensorError
from .axes import along, axes_of, count_of
from .definitions import Array, array, jax, numpy, scipy
from .primitives import finite, largest, stopped


@array.mean
def mean(x: Array, axis=None, keepdims=False, where=True):
    total = np.sum(x, axis, keepdims=keepdims, where=where)
    return _per_entry(total, _count_entries(x.shape, axis, keepdims, where))


def _per_entry(total, count):
    """`total / count`; of no entries what is no number, as NumPy has it."""
    return total + np.nan if isinstance(count, int) and count == 0 else total / count


def _count_entries(shape, axis, keepdims, where):
    """Return how many entries there are along axes, or how many where a condition holds."""
    if where is True or where is None:
        return count_of(shape, axis)
    return np.sum(np.broadcast_to(where, shape), axis, keepdims=keepdims)


@numpy.average
def average(x: Array, axis=None, weights: Array = None):
    """Return the weighted mean."""
    if weights is None:
        return np.mean(x, axis)
    return np.sum(x * weights, axis) / np.sum(weights, None if weights.ndim == 1 else axis)


@array.var
def var(x: Array, axis=None, ddof=0, keepdims=False, where=True):
    """Return the variance, `sum((x - mean(x))**2) / (n - ddof)`."""
    apart = x - np.mean(x, axis, keepdims=True, where=where)
    count = _count_entries(x.shape, axis, keepdims, where)
    squares = np.sum(apart**2, axis, keepdims=keepdims, where=where)
    return _per_entry(squares, count - ddof if ddof else count)


@array.std
def std(x: Array, axis=None, ddof=0, keepdims=False, where=True):
    """Return the standard deviation."""
    return np.sqrt(np.var(x, axis, ddof=ddof, keepdims=keepdims, where=where))


@numpy.count_nonzero
def count_nonzero(x: Array, axis=None, keepdims=False):
    """Return how many entries are not zero."""
    return np.sum(x != 0, axis, keepdims=keepdims)


@numpy.ptp
def ptp(x: Array, axis=None, keepdims=False):
    """Return the largest minus the smallest entry."""
    return np.max(x, axis, keepdims=keepdims) - np.min(x, axis, keepdims=keepdims)


@numpy.allclose
def allclose(a: Array, b: Array, rtol=1e-5, atol=1e-8):
    """Return whether all entries are close."""
    return np.all(np.isclose(a, b, rtol, atol))


# Without what is no number


@numpy.nansum
def nansum(x: Array, axis=None, keepdims=False):
    """Return the sum without NaN."""
    return np.sum(np.where(x == x, x, 0), axis, keepdims=keepdims)


@numpy.nanprod
def nanprod(x: Array, axis=None, keepdims=False):
    """Return the product without NaN."""
    return np.prod(np.where(x == x, x, 1), axis, keepdims=keepdims)


@numpy.nanmean
def nanmean(x: Array, axis=None, keepdims=False):
    """Return the mean without NaN."""
    return np.nansum(x, axis, keepdims=keepdims) / np.sum(x == x, axis, keepdims=keepdims)


@numpy.nanmax
def nanmax(x: Array, axis=None, keepdims=False):
    """Return the largest entry that is not NaN."""
    return np.max(np.where(x == x, x, -np.inf), axis, keepdims=keepdims)


@numpy.nanmin
def nanmin(x: Array, axis=None, keepdims=False):
    """Return the smallest entry that is not NaN."""
    return np.min(np.where(x == x, x, np.inf), axis, keepdims=keepdims)


@numpy.nanvar
def nanvar(x: Array, axis=None, ddof=0, keepdims=False):
    """Return the variance without NaN."""
    present = x == x
    apart = np.where(present, x - np.nanmean(x, axis, keepdims=True), 0)
    count = np.sum(present, axis, keepdims=keepdims)
    return np.sum(apart**2, axis, keepdims=keepdims) / (count - ddof if ddof else count)


@numpy.nanstd
def nanstd(x: Array, axis=None, ddof=0, keepdims=False):
    """Return the standard deviation without NaN."""
    return np.sqrt(np.nanvar(x, axis, ddof=ddof, keepdims=keepdims))


# Without the largest entry, which is a constant to the derivative


@jax.nn.logsumexp
@scipy.special.logsumexp
def logsumexp(x: Array, axis=None, b=None, keepdims=False):
    """Return `log(sum(b*exp(x)))`, computed without overflow."""
    top = finite(largest(x, axis, keepdims=True))
    e = np.exp(x - top)
    spread = np.sum(e if b is None else b * e, axis, keepdims=keepdims)
    return np.log(spread) + (top if keepdims else np.squeeze(top, axes_of(x.ndim, axis)))


@jax.nn.softmax
def softmax(x: Array, axis=-1):
    """Return `exp(x) / sum(exp(x))` along an axis, the last by default."""
    e = np.exp(x - stopped(largest(x, axis, keepdims=True)))
    return e / np.sum(e, axis, keepdims=True)


@scipy.special.softmax
def softmax_of_all(x: Array, axis=None):
    """Return `exp(x) / sum(exp(x))` along axes, all by default."""
    e = np.exp(x - stopped(largest(x, axis, keepdims=True)))
    return e / np.sum(e, axis, keepdims=True)


@jax.nn.log_softmax
def log_softmax(x: Array, axis=-1):
    """Return `log(softmax(x))` along an axis, the last by default, computed without overflow."""
    z = x - stopped(largest(x, axis, keepdims=True))
    return z - np.log(np.sum(np.exp(z), axis, keepdims=True))


@scipy.special.log_softmax
def log_softmax_of_all(x: Array, axis=None):
    """Return `log(softmax(x))` along axes, all by default, computed without overflow."""
    z = x - finite(largest(x, axis, keepdims=True))
    return z - np.log(np.sum(np.exp(z), axis, keepdims=True))


# In order


@numpy.median
def median(a: Array, axis=None, keepdims=False):
    """Return the middle entry in order; of an even number of entries, the mean of two."""
    return np.quantile(a, 0.5, axis, keepdims=keepdims)


@numpy.percentile
def percentile(a: Array, q, axis=None, method="linear", keepdims=False):
    """Return the quantile at `q / 100`."""
    share = [x / 100 for x in q] if isinstance(q, tuple | list) else q / 100
    return np.quantile(a, share, axis, method=method, keepdims=keepdims)


@numpy.quantile
def quantile(a: Array, q, axis=None, method="linear", keepdims=False):
    """Return a quantile by linear interpolation; for several q, a row for each."""
    if isinstance(q, tuple | list):
        return np.stack([np.quantile(a, x, axis, method=method, keepdims=keepdims) for x in q])
    if method != "linear":
        raise TensorError("`quantile` goes between entries in proportion", "leave `method` out")
    if axis is None:
        made = np.quantile(np.ravel(a), q, 0)
        ones = range(made.ndim, made.ndim + a.ndim)
        return np.expand_dims(made, tuple(ones)) if keepdims else made
    (k, *others) = axes_of(a.ndim, axis)
    if others or not int(a.shape[k]):
        raise TensorError("`quantile` of no entries, or along several axes", "reshape, name one")
    if isinstance(q, int | float):
        made = _quantile_of_known_rank(a, q, k)
        return made if keepdims else np.squeeze(made, k)
    made = _quantile_of_ranks(a, q, k)
    return np.expand_dims(made, k + getattr(q, "ndim", 0)) if keepdims else made


def _quantile_of_known_rank(a: Array, q, axis):
    """Return a quantile along an axis for a constant q; NaN if an entry is NaN."""
    if not 0 <= q <= 1:
        raise ValueError("Quantiles must be in the range [0, 1]")
    n = int(a.shape[axis])
    rank = int(q * (n - 1))
    part = q * (n - 1) - rank
    places = np.argsort(a, axis)
    low = _at_rank(a, places, rank, axis)
    made = low
    if part:
        high = _at_rank(a, places, rank + 1, axis)
        made = 0.5 * (low + high) if part == 0.5 else low + part * (high - low)
    anyhow = stopped(np.sum(a, axis, keepdims=True))
    return np.where(np.sum(a == a, axis, keepdims=True) == n, made, anyhow)


def _at_rank(a, order, rank, axis):
    """Return the entries of one rank along an axis, by the indices that sort it."""
    return np.take_along_axis(a, order[along(axis, slice(rank, rank + 1))], axis)


def _quantile_of_ranks(a: Array, q, axis):
    """Return a quantile along an axis for a q that data decide; for several q, a row for each."""
    if getattr(q, "ndim", 0) > 1:
        raise TensorError("`quantile` takes q as a number or an array of one axis")
    n = int(a.shape[axis])
    place = q * (n - 1)
    low = np.clip(np.array(np.floor(place), int, like=place), 0, max(0, n - 2))
    ordered = np.moveaxis(np.sort(a, axis), axis, -1)
    first, second = ordered[..., low], ordered[..., low + 1 if n > 1 else low]
    made = first + (place - low) * (second - first)
    return np.moveaxis(made, -1, 0) if getattr(q, "ndim", 0) else made


@jax.numpy.unique
def unique(ar: Array, *, size=None, fill_value=None):
    """Return the `size` smallest different numbers, in order.

    If there are fewer, the rest is `fill_value`, or the smallest number.
    """
    if size is None:
        raise TensorError(
            "how many numbers `unique` finds is what data decide",
            "say how many there may be, as in JAX: `np.unique(x, size=k)`; or pass integers, of which it finds out itself",
        )
    ordered = np.sort(ar, None)
    first = np.concatenate([[1], ordered[1:] != ordered[:-1]])
    place = np.cumsum(first)
    rank = np.arange(1, size + 1, like=ar)
    found = np.sum(np.where((place == rank[:, None]) * first, ordered, 0), 1)
    return np.where(rank <= place[-1], found, ordered[0] if fill_value is None else fill_value)


@numpy.partition
def partition(a: Array, kth, axis=-1):
    """In order, which NumPy leaves open on either side of the entry."""
    return np.sort(a, axis)


@numpy.argpartition
def argpartition(a: Array, kth, axis=-1):
    return np.argsort(a, axis)


# Of samples


@numpy.histogram
def histogram(a: Array, bins=10, range=None, weights: Array = None):  # noqa: A002 - NumPy's name
    """Return `[sum(e[k] <= x < e[k + 1] for x in a) for k in range(m)]`, and the ends e; the last bin includes its end."""
    if isinstance(bins, int):
        if range is None:
            raise TensorError(
                "the ends of the bins are data", "`range=(low, high)`, or the ends themselves"
            )
        first, end = range
        bins = first + (end - first) / bins * np.arange(bins + 1, like=a)
    x, low, high = np.ravel(a), bins[:-1, None], bins[1:, None]
    last = bins.shape[0] - 2
    is_inner = np.arange(last + 1, like=a)[:, None] < last
    inside = (low <= x) * np.where(is_inner, x < high, x <= high)
    return np.sum(inside if weights is None else np.where(inside, np.ravel(weights), 0), 1), bins


@numpy.trapezoid
@numpy.trapz
def trapezoid(y: Array, x: Array = None, dx=1.0, axis=-1):
    """Return the integral by the trapezoidal rule, `sum(½·(y[i] + y[i + 1])·(x[i + 1] - x[i]))`."""
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
    """Return `(p[0]·x + p[1])·x + …`, by Horner's rule."""
    first, *rest = p
    made = first if x.ndim == 0 else 0.0 * x + first
    for c in rest:
        made = made * x + c
    return made


@numpy.polyfit
def polyfit(x: Array, y: Array, deg, rcond=None, full=False, w: Array = None, cov=False):
    """The least squares of `vander(x, deg + 1) @ p - y`, whose columns are scaled to length 1."""
    if full or cov:
        raise TensorError("`polyfit` returns only the coefficients here", "leave `full`, `cov` out")
    if x.ndim != 1 or y.ndim not in (1, 2):
        raise TypeError("expected 1D vector for x and 1D or 2D array for y")
    columns = np.vander(x, deg + 1)
    if w is not None:
        columns, y = columns * w[:, None], y * (w if y.ndim == 1 else w[:, None])
    scale = np.sqrt(np.sum(columns**2, 0))
    found = np.linalg.lstsq(columns / scale, y, rcond=None)[0]
    return found / (scale if y.ndim == 1 else scale[:, None])


@scipy.spatial.distance.cdist
def cdist(XA: Array, XB: Array, metric="euclidean", p=2):  # noqa: N803 - SciPy's names
    """The distance of each row of one matrix to each of another."""
    if XA.ndim != 2 or XB.ndim != 2:
        raise ValueError("XA and XB must be 2-dimensional arrays")
    return _distance(XA[:, None] - XB[None], metric, p)


@scipy.spatial.distance.pdist
def pdist(X: Array, metric="euclidean", p=2):  # noqa: N803 - SciPy's name
    """The distance of each row to each of those below it, one after the other."""
    n = int(X.shape[0])
    if X.ndim != 2 or n < 2:
        raise ValueError("X must be a 2-dimensional array of two rows or more")
    if n > MOST_ROWS:
        raise TensorError(
            f"`pdist` of more than {MOST_ROWS} rows",
            "loop over pairs: `sum(f(X[i], X[j]) for i in range(n) for j in range(i))`; or use `cdist`",
        )
    return np.concatenate([_distance(X[k + 1 :] - X[k], metric, p) for k in range(n - 1)])


MOST_ROWS = 100  # of which `pdist` is written out


def _distance(apart, metric, p):
    """The length of the vectors along the last axis."""
    if metric == "sqeuclidean":
        return np.sum(apart**2, -1)
    order = {"euclidean": 2, "cityblock": 1, "chebyshev": np.inf, "minkowski": p}.get(metric)
    if order is None:
        raise TensorError(
            f"distances by {metric!r}", "`euclidean`, `sqeuclidean`, `cityblock`, `chebyshev`"
        )
    return np.linalg.norm(apart, order, -1)


@numpy.cov
def cov(m: Array, y: Array = None, rowvar=True, bias=False, ddof=None):
    """Return the covariance matrix, `d @ d.T / (n - 1)`, d being the rows minus their means."""
    rows = [x if rowvar or x.ndim < 2 else x.T for x in (m, y) if x is not None]
    x = rows[0] if y is None else np.vstack(rows)
    if x.ndim > 2:
        raise ValueError("m has more than 2 dimensions")
    apart = x - np.mean(x, -1, keepdims=True)
    less = ddof if ddof is not None else 0 if bias else 1
    return np.inner(apart, apart) / (x.shape[-1] - less)


@numpy.corrcoef
def corrcoef(x: Array, y: Array = None, rowvar=True):
    """Return the matrix of correlation coefficients."""
    c = np.cov(x, y, rowvar)
    if c.ndim == 0:
        return c / c
    d = np.sqrt(np.diagonal(c))
    return c / np.outer(d, d)
