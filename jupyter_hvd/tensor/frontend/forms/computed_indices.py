"""Indices computed from data: integers, whose derivative is zero (`tracing/computed_indices`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...derivative.sorting import COUNT_BELOW, COUNT_UP_TO
from ...language.affine import Affine
from ...language.predicates import compare
from ..tracers import is_index_array
from .reductions import along_one, axes_of, largest, order, require_entries, smallest
from .table import FEW, applied, build, form

ZERO, ONE = Affine.of(0), Affine.of(1)


def _first_extreme(t: Any, x: Any, axis: Any, keepdims: bool, most: Any) -> Any:
    """Return the first position of the largest or smallest entry: the least of `i + dropped(ties(x[i], top), n)`."""
    rank = len(t.dims(t.whole(x)))
    flat = axis is None
    x, k = along_one(t, x, axis)
    n = Affine.of(t.number(t.dims(x)[k]))  # so that it is known which of two places is in range
    require_entries(t, x, k)
    top = t.once(most(t, x, k, keepdims=True), "top")

    def entry(*at: Affine) -> Any:
        beside = t.read(top, *at[:k], ZERO, *at[k + 1 :])
        best = t.mapped("ties", t.read(x, *at), beside)
        return t.computed("+", t.ramp(at[k]), t.mapped("dropped", best, t.scalar_of(n)))

    place = smallest(t, t.build(t.dims(x), entry, x, top), k, keepdims=keepdims and not flat)
    if flat and keepdims:
        place = t.build([ONE] * rank, lambda *_: place)
    return t.ranging(place, ZERO, n)


@form("argmax", method=True)
def argmax(t: Any, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Build NumPy's `argmax`: the index of the largest entry, of equal ones the first."""
    return _first_extreme(t, x, axis, keepdims, largest)


@form("argmin", method=True)
def argmin(t: Any, x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Build NumPy's `argmin`: the index of the smallest entry, of equal ones the first."""
    return _first_extreme(t, x, axis, keepdims, smallest)


@form("argsort", method=True)
def argsort(
    t: Any, x: Any, axis: Any = -1, kind: Any = None, stable: Any = True, descending: bool = False
) -> Any:
    """Build NumPy's `argsort`: the indices that sort the entries; equal entries keep their order."""
    x, k = along_one(t, x, axis)
    return order(t, x, k, descending)


@form("top_k")
def top_k(t: Any, x: Any, k: Any, axis: int = -1) -> Any:
    """Build JAX's `top_k`: the k largest entries along an axis, largest first, and their indices."""
    x, last = along_one(t, x, axis)
    first = (*[slice(None)] * last, slice(None, k))
    places = t.subscript(order(t, x, last, descending=True), first)
    return take_along_axis(t, x, places, last), places


@form("searchsorted", method=True)
def searchsorted(t: Any, a: Any, v: Any, side: str = "left") -> Any:
    """Build NumPy's `searchsorted`: how many entries of the sorted a are less than v; with "right", less or equal."""
    a, v = t.named(t.whole(a), "a"), t.whole(v)
    (n,) = t.dims(a)
    wanted = t.named(v if t.dims(v) else build(t, "expand_dims", v, 0), "v")
    made = applied(t, COUNT_BELOW if side == "left" else COUNT_UP_TO, a, wanted)
    made = made if t.dims(v) else t.read(made, ZERO)
    return t.ranging(made, ZERO, n + 1)


@form("digitize")
def digitize(t: Any, x: Any, bins: Any, right: bool = False) -> Any:
    """Build NumPy's `digitize`: `searchsorted` with the other side, for increasing bins."""
    return searchsorted(t, bins, x, "left" if right else "right")


@form("unravel_index")
def unravel_index(t: Any, indices: Any, shape: Any) -> Any:
    """Build NumPy's `unravel_index`: the index along each axis for an index into the flattened array."""
    sizes, made = [t.number(n) for n in t.shape_of(shape)], []
    rest = t.once(t.whole(indices), "place")
    for n in reversed(sizes[1:]):
        made.append(t.ranging(t.computed("%", rest, n), ZERO, Affine.of(n)))
        rest = t.once(t.computed("//", rest, n), "rest")
    return tuple(reversed([*made, t.ranging(rest, ZERO, Affine.of(sizes[0]))]))


def _triangle_indices(t: Any, name: str, n: Any, m: Any, holds: Any) -> Any:
    """Return the rows and the columns of the entries of an n×m table for which `holds`, row by row; as constants if there are
    few.
    """
    rows = t.size_of(n)
    columns = rows if m is None else t.size_of(m)

    def constants() -> Any:
        own, other = (t.number(size) for size in (rows, columns))
        places = np.indices((own, other)).reshape(2, -1)
        return t.constants([x[holds(*places)] for x in places], f"`{name}`")

    if rows.is_constant and columns.is_constant and rows.constant * columns.constant <= FEW:
        return constants()
    return t.places_of_pairs(rows, columns, holds, constants)


@form("triu_indices", maker=True)
def triu_indices(t: Any, n: Any, k: int = 0, m: Any = None) -> Any:
    """Build NumPy's `triu_indices`: the i and the j with `i + k <= j`, row by row."""
    return _triangle_indices(t, "triu_indices", n, m, lambda i, j: _at_most(i + k, j))


@form("tril_indices", maker=True)
def tril_indices(t: Any, n: Any, k: int = 0, m: Any = None) -> Any:
    """Build NumPy's `tril_indices`: the i and the j with `j <= i + k`, row by row."""
    return _triangle_indices(t, "tril_indices", n, m, lambda i, j: _at_most(j, i + k))


def _at_most(a: Any, b: Any) -> Any:
    """Return the condition a ≤ b, of affine expressions or numbers."""
    return compare("≤", a, b) if isinstance(a, Affine) else a <= b


@form("triu_indices_from")
def triu_indices_from(t: Any, arr: Any, k: int = 0) -> Any:
    """Build NumPy's `triu_indices_from`: `triu_indices(n, k, m)` of an array's sizes."""
    n, m = t.whole(arr).shape
    return triu_indices(t, n, k, m)


@form("tril_indices_from")
def tril_indices_from(t: Any, arr: Any, k: int = 0) -> Any:
    """Build NumPy's `tril_indices_from`: `tril_indices(n, k, m)` of an array's sizes."""
    n, m = t.whole(arr).shape
    return tril_indices(t, n, k, m)


@form("diag_indices", maker=True)
def diag_indices(t: Any, n: Any, ndim: int = 2) -> Any:
    """Build NumPy's `diag_indices`: `np.arange(n)` for each axis."""
    return (build(t, "arange", n),) * ndim


@form("diag_indices_from")
def diag_indices_from(t: Any, arr: Any) -> Any:
    """Build NumPy's `diag_indices_from`: `diag_indices(n, ndim)` of an array whose sizes are all n."""
    dims = t.dims(t.whole(arr))
    if len(dims) < 2:
        raise t.error("`diag_indices_from` takes an array of two axes or more")
    return diag_indices(t, t.index(t.same(*dims)), len(dims))


@form("take_along_axis")
def take_along_axis(t: Any, arr: Any, indices: Any, axis: Any = -1) -> Any:
    """Build NumPy's `take_along_axis`: `x[i, src[i, j]]` along an axis."""
    if axis is None:
        arr, axis = build(t, "ravel", arr), 0
    x = t.once(t.whole(arr))
    dims = t.dims(x)
    (k,) = axes_of(t, axis, len(dims))
    own = t.integers_in(indices, "`take_along_axis`").dims
    if len(own) != len(dims):
        raise t.error(
            "`take_along_axis` takes an index array with the same number of dimensions",
            "pass integers: `np.take_along_axis(x, labels[:, None], axis=1)`",
        )
    along = (t.along_axis(build(t, "arange", t.index(n)), j, len(dims)) for j, n in enumerate(dims))
    return t.subscript(x, tuple(indices if j == k else place for j, place in enumerate(along)))


@form("one_hot")
def one_hot(t: Any, x: Any, num_classes: Any) -> Any:
    """Build JAX's `one_hot`: `[[labels[i] == k for k in range(m)] for i in range(n)]`."""
    places = t.integers_in(x, "`one_hot`")

    def entry(*at: Affine) -> Any:
        return t.whole(t._compare("==", places.entry(at[:-1]), t.index(at[-1])))

    return t.build([*places.dims, t.size_of(num_classes)], entry)


@form("segment_sum")
def segment_sum(t: Any, data: Any, segment_ids: Any, num_segments: Any = None, **_: Any) -> Any:
    """Build JAX's `segment_sum`: `[sum(x[e] for e in range(n) if src[e] == k) for k in range(m)]`."""
    if num_segments is None:
        raise t.error("how many segments there are is data", "`num_segments=…`")
    data = t.whole(data)
    zeros = t.build([t.size_of(num_segments), *t.dims(data)[1:]], lambda *_: t.whole(0))
    return t.stored(zeros, (segment_ids,), data, "+")


@form("bincount")
def bincount(t: Any, x: Any, weights: Any = None, minlength: Any = None, length: Any = None) -> Any:
    """Build NumPy's `bincount`: `[sum(w[e] for e in range(n) if src[e] == k) for k in range(m)]`, for src below m."""
    bins = minlength if length is None else length
    places = t.integers_in(x, "`bincount`")
    if bins is None and (most := t.on_host(x, "max")) is not None:
        bins = t.binary(t.here, "+", most, 1)
    if len(places.dims) != 1 or bins is None:
        raise t.error(
            "how many bins there are is data",
            "pass the places as an array of integers, and how many bins: `np.bincount(src, w, minlength=m)`",
        )
    if is_index_array(x) and length is None:
        t.in_range(places, t.size_of(bins), from_end=False)
    w = t.build(places.dims, lambda *_: t.whole(1)) if weights is None else weights
    return segment_sum(t, w, x, bins)


@form("interp")
def interp(t: Any, x: Any, xp: Any, fp: Any) -> Any:
    """Build NumPy's `interp`: linear interpolation between two points of xp; outside, the value of the nearest end."""
    xp, fp = t.once(t.whole(xp), "xp"), t.once(t.whole(fp), "fp")
    x = t.once(build(t, "clip", x, t.entry_at(xp, ZERO), t.entry_at(xp, t.dims(xp)[0] - 1)), "at")
    n = t.same(*t.dims(xp), *t.dims(fp))
    right = build(t, "clip", searchsorted(t, xp, x, "right"), 1, t.index(n - 1))
    right = t.once(right, "right").of_nature(right.nature)
    left = t.binary(t.here, "-", right, 1)
    a, b, f, g = (
        t.once(t.subscript(values, (place,)), "end")
        if t.dims(right)
        else t.entry_of(values, (place,))
        for values in (xp, fp)
        for place in (left, right)
    )
    same = t.once(t._compare("==", a, b), "same")  # of the last place, when it is repeated
    width = t.chosen(same, 1, t.computed("-", b, a))
    part = t.chosen(same, 1, t.computed("/", t.computed("-", x, a), width))
    return t.computed("+", f, t.computed("*", part, t.computed("-", g, f)))
