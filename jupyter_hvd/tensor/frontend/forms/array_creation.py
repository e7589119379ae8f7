"""Functions that create arrays from sizes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...language.affine import Affine
from ...language.predicates import compare
from ..tracers import numbers_of
from .table import FEW, build, form


@form("zeros", "empty", maker=True)
def zeros(t: Any, shape: Any, dtype: Any = None) -> Any:
    """Build NumPy's `zeros`: an array with 0 at every entry."""
    return t.typed(_fill(t, shape, 0), dtype, True)


@form("ones", maker=True)
def ones(t: Any, shape: Any, dtype: Any = None) -> Any:
    """Build NumPy's `ones`: an array with 1 at every entry."""
    return t.typed(_fill(t, shape, 1), dtype, True)


def _fill(t: Any, shape: Any, value: Any) -> Any:
    """Return an array with one value at every entry."""
    value = t.once(t.whole(value))
    return t.build(t.shape_of(shape), lambda *at: value, value)


@form("full", maker=True)
def full(t: Any, shape: Any, value: Any, dtype: Any = None) -> Any:
    """Build NumPy's `full`: an array with one number at every entry."""
    made = _fill(t, shape, value)
    return t.typed(t.of_numbers(made, numbers_of(value)), dtype)


@form("zeros_like", "empty_like")
def zeros_like(t: Any, x: Any) -> Any:
    """Build NumPy's `zeros_like`: an array of x's shape with 0 at every entry."""
    return _fill_like(t, x, 0)


@form("ones_like")
def ones_like(t: Any, x: Any) -> Any:
    """Build NumPy's `ones_like`: an array of x's shape with 1 at every entry."""
    return _fill_like(t, x, 1)


@form("full_like")
def full_like(t: Any, x: Any, value: Any) -> Any:
    """Build NumPy's `full_like`: an array of x's shape with one number at every entry."""
    return _fill_like(t, x, value)


def _fill_like(t: Any, x: Any, value: Any) -> Any:
    """Return an array of x's shape with one value at every entry."""
    return build(t, "broadcast_to", value, t.whole(x).shape)


@form("eye", "identity", maker=True)
def eye(t: Any, N: Any, M: Any = None, k: int = 0) -> Any:  # noqa: N803 - NumPy's names
    """Build NumPy's `eye`: `1 if j == i + k else 0`."""
    rows = t.size_of(N)
    columns = rows if M is None else t.size_of(M)
    return t.condition_array([rows, columns], lambda i, j: compare("=", j, i + k))


@form("tri", maker=True)
def tri(t: Any, N: Any, M: Any = None, k: int = 0) -> Any:  # noqa: N803 - NumPy's names
    """Build NumPy's `tri`: `1 if j <= i + k else 0`."""
    rows = t.size_of(N)
    columns = rows if M is None else t.size_of(M)
    return t.condition_array([rows, columns], lambda i, j: compare("≤", j, i + k))


@form("arange", maker=True)
def arange(t: Any, *bounds: Any) -> Any:
    """Build NumPy's `arange`: `start + i·step` at every i; integers unless a bound is a float."""
    whole = [int(b) if isinstance(b, float) and b.is_integer() else b for b in bounds]
    start, length, step = t._range_parts(tuple(whole))
    made = t.build([length], lambda i: t.ramp(start + i * step))
    if any(isinstance(b, float) for b in bounds):
        return made
    last = start + (length - 1) * step
    return t.ranging(made, *((start, last + 1) if step > 0 else (last, start + 1)))


@form("linspace", maker=True)
def linspace(t: Any, low: Any, high: Any, num: Any = 50, endpoint: bool = True) -> Any:
    """Build NumPy's `linspace`: `low + i·(high - low)/(n - 1)`."""
    if t.is_array(low) or t.is_array(high):
        raise t.error("`linspace` goes from one number to another", "write it out for arrays")
    n = t.size_of(num)
    steps = t.number(n) - (1 if endpoint else 0)
    low = t.once(t.whole(low), "low")
    step = t.once(t.whole(t.computed("/", t.computed("-", high, low), max(1, steps))), "step")
    return t.build([n], lambda i: t.computed("+", low, t.computed("*", step, t.ramp(i))), low, step)


def grid(t: Any, ranges: Any, sparse: bool) -> Any:
    """Build `np.mgrid[a:b, c:d]`, an array of each index; if sparse, `np.ogrid`, each index along an axis of its own."""
    each = [_grid_axis(t, r) for r in (ranges if isinstance(ranges, tuple) else (ranges,))]
    if not isinstance(ranges, tuple):
        return each[0]
    if sparse:
        count = len(each)
        return tuple(
            t.subscript(x, (*[None] * k, slice(None), *[None] * (count - 1 - k)))
            for k, x in enumerate(each)
        )
    made = build(t, "stack", list(meshgrid(t, *each, indexing="ij")), 0)
    whole = all(numbers_of(x) == "int" for x in each)
    return t.of_numbers(made, "int") if whole else made


def _grid_axis(t: Any, range_: Any) -> Any:
    """Return `a:b:step` as an array; with `3j` as the step, three numbers from a to b."""
    if not isinstance(range_, slice) or range_.stop is None:
        raise t.error("a grid is of ranges that have an end", "`np.mgrid[0:n, 0:m]`")
    start = 0 if range_.start is None else range_.start
    if isinstance(range_.step, complex):
        return linspace(t, start, range_.stop, int(abs(range_.step)))
    return arange(t, start, range_.stop, 1 if range_.step is None else range_.step)


@form("indices", maker=True)
def indices(t: Any, dimensions: Any, sparse: bool = False) -> Any:
    """Build NumPy's `indices`: `np.mgrid[0:n, 0:m]` of a shape."""
    return grid(t, tuple(slice(0, t.index(n)) for n in t.shape_of(dimensions)), sparse)


@form("ix_")
def ix_(t: Any, *indices: Any) -> Any:
    """Build NumPy's `ix_`: indices by which `A[np.ix_(i, j)]` is `A[i[:, None], j]`; of literal lists, `A[i][:, j]`."""
    if any(isinstance(t.listed(p), tuple | list) for p in indices):
        return tuple(t.along_axis(p, k, len(indices)) for k, p in enumerate(indices))
    return tuple(
        t.subscript(p, (slice(None), *[None] * behind))
        for behind, p in enumerate(reversed(indices))
    )[::-1]


@form("meshgrid")
def meshgrid(t: Any, *vectors: Any, indexing: str = "xy") -> Any:
    """Build NumPy's `meshgrid`: `x[j]` and `y[i]` at every `[i, j]`, with "ij" `x[i]` and `y[j]`.

    Further vectors run along further axes.
    """
    parts = [t.once(build(t, "ravel", x)) for x in vectors]
    order = list(range(len(parts)))
    if indexing == "xy" and len(parts) > 1:
        order[:2] = 1, 0
    shape = [t.dims(parts[k])[0] for k in order]

    def along(x: Any, axis: int) -> Any:
        return t.build(shape, lambda *at: t.read(x, at[axis]), x)

    return tuple(along(x, order.index(k)) for k, x in enumerate(parts))


def _cosine_window(t: Any, n: Any, name: str, *weights: float) -> Any:
    """Return `weights[0] + weights[1]·cos(2π·i/(n - 1)) + …`, as constants if it is short."""
    count = t.number(t.size_of(n))
    if 0 < count <= FEW:
        return t.constants(getattr(np, name)(count), f"`{name}`")
    turn = 2 * math.pi / max(1, count - 1)

    def entry(i: Affine) -> Any:
        made: Any = weights[0]
        for k, weight in enumerate(weights[1:], 1):
            wave = t.mapped("cos", t.computed("*", k * turn, t.ramp(i)))
            made = t.computed("+", made, t.computed("*", weight, wave))
        return made

    return t.build([Affine.of(max(0, count))], entry)


@form("hanning", maker=True)
def hanning(t: Any, n: Any) -> Any:
    """Build NumPy's `hanning`: `½ - ½·cos(2π·i/(n - 1))`."""
    return _cosine_window(t, n, "hanning", 0.5, -0.5)


@form("hamming", maker=True)
def hamming(t: Any, n: Any) -> Any:
    """Build NumPy's `hamming`: `0.54 - 0.46·cos(2π·i/(n - 1))`."""
    return _cosine_window(t, n, "hamming", 0.54, -0.46)


@form("blackman", maker=True)
def blackman(t: Any, n: Any) -> Any:
    """Build NumPy's `blackman`: `0.42 - ½·cos(2π·i/(n - 1)) + 0.08·cos(4π·i/(n - 1))`."""
    return _cosine_window(t, n, "blackman", 0.42, -0.5, 0.08)


@form("bartlett", maker=True)
def bartlett(t: Any, n: Any) -> Any:
    """Build NumPy's `bartlett`: `1 - |2·i/(n - 1) - 1|`."""
    count = t.number(t.size_of(n))
    if 0 < count <= FEW:
        return t.constants(np.bartlett(count), "`bartlett`")
    ends = build(t, "linspace", -1, 1, count)
    return t.computed("-", 1, t.mapped("abs", ends))
