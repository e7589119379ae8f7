"""The same entries in another shape or order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, cast

import numpy as np

from ...language.affine import Affine
from ...language.predicates import Predicate, compare, in_range
from ..tracers import is_index_array, numbers_of
from .reductions import along_one, axes_of
from .table import attribute, build, form

ONE = Affine.of(1)
ZERO = Affine.of(0)


@form("transpose", "permute_dims", method=True)
def transpose(t: Any, x: Any, *axes: Any) -> Any:
    """Build NumPy's `transpose`: the axes in reverse, or in the given order."""
    if is_index_array(x) and not axes:
        return x.data.transposed.array
    x = t.plainly(t.whole(x))
    dims = t.dims(x)
    if len(axes) == 1 and isinstance(axes[0], tuple | list):
        axes = tuple(axes[0])
    if not axes or axes == (None,):
        axes = tuple(reversed(range(len(dims))))
    order = [a % len(dims) for a in axes]
    if sorted(order) != list(range(len(dims))):
        raise t.error(f"{axes} is not an order of {len(dims)} axes")

    def entry(*at: Affine) -> Any:
        return t.read(x, *(at[order.index(k)] for k in range(len(dims))))

    return t.build([dims[k] for k in order], entry, x)


@attribute("T")
def transposed(t: Any, x: Any) -> Any:
    """Build `x.T`: the axes in reverse."""
    return transpose(t, x)


@attribute("mT")
def matrix_transposed(t: Any, x: Any) -> Any:
    """Build `x.mT`: the last two axes exchanged."""
    return build(t, "swapaxes", x, -1, -2)


@form("reshape", method=True)
def reshape(t: Any, x: Any, *shape: Any, order: str = "C") -> Any:
    """Build NumPy's `reshape`; with `order="F"` by columns."""
    if shape and isinstance(shape[-1], str):
        shape, order = shape[:-1], shape[-1]
    x = t.whole(x)
    dims = t.dims(x)
    if len(shape) == 1 and isinstance(shape[0], tuple | list):
        shape = tuple(shape[0])
    if len(shape) == 1:
        shape = tuple(s) if isinstance(s := t.listed(shape[0]), list) else shape
    if _is_column_order(t, order):
        return transpose(t, reshape(t, transpose(t, x), *reversed(shape)))
    wanted = [None if n == -1 and isinstance(n, int) else t.size_of(n) for n in shape]
    kept = [n for n in dims if n != ONE]
    if None not in wanted and [n for n in wanted if n != ONE] == kept:
        # Axes of size 1 come and go.
        x = t.plainly(x)

        def moved(*at: Affine) -> Any:
            inner = iter(a for a, n in zip(at, wanted, strict=True) if n != ONE)
            return t.read(x, *(ZERO if n == ONE else next(inner) for n in dims))

        return t.build(wanted, moved, x)
    sizes = [t.number(n) for n in dims]
    whole = _multiply(sizes)
    known = [-1 if n is None else t.number(n) for n in wanted]
    rest = _multiply([n for n in known if n >= 0])
    numbers = [whole // rest if n < 0 and rest else n for n in known]
    if min(numbers, default=0) < 0 or _multiply(numbers) != whole:
        raise t.error(f"{whole} entries do not fit into the shape {tuple(shape)}")
    return _reshape_by_sum(t, t.once(x), sizes, numbers)


def _is_column_order(t: Any, order: str) -> bool:
    """Whether `order` is "F"; TensorError unless it is "C" or "F"."""
    if order not in ("C", "F"):
        raise t.error(f"order {order!r} depends on how NumPy stores the array", "`C` or `F`")
    return order == "F"


def _multiply(numbers: Sequence[int]) -> int:
    """Return the product of integers."""
    product = 1
    for n in numbers:
        product *= n
    return product


def _reshape_by_sum(t: Any, x: Any, sizes: Sequence[int], wanted: Sequence[int]) -> Any:
    """Return `⊞ at. Σ k. [flat(k) = flat(at)]·x[k]`, which has one term per entry; leading axes of equal size stay."""
    same = 0
    while same < min(len(sizes), len(wanted)) and sizes[same] == wanted[same]:
        same += 1

    def flat(at: Sequence[Affine], sizes: Sequence[int]) -> Affine:
        place = ZERO
        for a, n in zip(at, sizes, strict=True):
            place = place * n + a
        return place

    def entry(*at: Affine) -> Any:
        here = flat(at[same:], wanted[same:])
        if len(sizes) == same + 1:
            return t.read(x, *at[:same], here)

        def term(*k: Affine) -> Any:
            same_place = compare("=", flat(k, sizes[same:]), here)
            return t.conditioned(same_place, t.read(x, *at[:same], *k))

        return t.total([Affine.of(n) for n in sizes[same:]], term, x)

    return t.build([Affine.of(n) for n in wanted], entry, x)


@form("ravel", "flatten", method=True)
def ravel(t: Any, x: Any, order: str = "C") -> Any:
    """Build NumPy's `ravel`: the rows one after the other; with `order="F"` the columns."""
    x = t.whole(x)
    x = transpose(t, x) if _is_column_order(t, order) else x
    return x if len(t.dims(x)) == 1 else reshape(t, x, -1)


@form("broadcast_to")
def broadcast_to(t: Any, x: Any, shape: Any) -> Any:
    """Build NumPy's `broadcast_to`: x repeated along axes that are missing or of size 1."""
    x = t.once(t.whole(x))
    dims = t.shape_of(shape)
    for own, wanted in zip(t.dims(x)[::-1], dims[::-1], strict=False):
        t.meet(own, wanted)
    return t.build(dims, lambda *at: t._aligned(x, at), x)


def spliced(
    t: Any,
    x: Any,
    k: int,
    length: Affine,
    pieces: Callable[[Affine], Sequence[tuple[Predicate, Affine]]],
) -> Any:
    """Return an array whose entries along axis k are read from x piece by piece.

    Args:
        length: the size of the new axis.
        pieces: for index i, the exclusive conditions and the index in x that each selects.
    """

    def entry(*at: Affine) -> Any:
        parts = [t.conditioned(p, t.read(x, *at[:k], a, *at[k + 1 :])) for p, a in pieces(at[k])]
        return reduce(t.plus_of, parts)

    dims = t.dims(x)
    return t.build([*dims[:k], length, *dims[k + 1 :]], entry, x)


@form("roll")
def roll(t: Any, x: Any, shift: Any, axis: Any = None) -> Any:
    """Build NumPy's `roll`: `x[i - shift]`, cyclically."""
    x = t.whole(x)
    if axis is None and len(t.dims(x)) != 1:
        return reshape(t, roll(t, ravel(t, x), shift), [t.index(n) for n in t.dims(x)])
    shifts, axes = (
        each if isinstance(each := t.listed(one), tuple | list) else [each]
        for one in (shift, 0 if axis is None else axis)
    )
    many = max(len(shifts), len(axes))
    shifts, axes = (one * many if len(one) == 1 else one for one in (shifts, axes))
    if len(shifts) != len(axes):
        raise t.error("`roll` takes a shift for each axis")
    for one, named in zip(shifts, axes, strict=True):
        (k,) = axes_of(t, named, len(t.dims(x)))
        x = _roll_axis(t, t.once(x), t.size_of(one), k)
    return x


def _roll_axis(t: Any, x: Any, size: Affine, k: int) -> Any:
    """Return x rolled along one axis by a size."""
    n = t.dims(x)[k]
    if t.varies(size):

        def around(*at: Affine) -> Any:
            row = t.build([n], lambda j: t.read(x, *at[:k], j, *at[k + 1 :]), x)
            return t.entry_around(row, at[k] - size, n)

        return t.build(t.dims(x), around, x)
    shift = t.number(size)
    if n.is_constant:
        shift %= max(1, n.constant)
    first = n + shift if shift < 0 else Affine.of(shift)  # place of what was the first entry
    if shift:
        t.looked("the roll of the array", "it", Affine.of(abs(shift)), n + 1, k, clips=True)
    return spliced(
        t,
        x,
        k,
        n,
        lambda i: [(compare("≤", first, i), i - first), (compare("<", i, first), i + n - first)],
    )


@form("delete")
def delete(t: Any, x: Any, index: Any, axis: Any = None) -> Any:
    """Build NumPy's `delete`: the entries before an index, and those after it."""
    x, k = along_one(t, x, axis)
    n = t.dims(x)[k]
    here = t.affine(t._as_size(index), "a place")
    if here.is_constant and here.constant < 0:
        here = n + here.constant
    t.looked("the place that is deleted", "the array", here, n, k)
    return spliced(
        t, x, k, n - 1, lambda i: [(compare("<", i, here), i), (compare("≤", here, i), i + 1)]
    )


@form("pad")
def pad(t: Any, x: Any, width: Any, mode: str = "constant", constant_values: Any = 0) -> Any:
    """Build NumPy's `pad`: by default `x[i - before] if 0 <= i - before < n else 0`."""
    x = t.once(t.whole(x))
    rank = len(t.dims(x))
    widths = [[t.number(t.size_of(w)) for w in pair] for pair in _widths_by_axis(t, width, rank)]
    if any(w < 0 for pair in widths for w in pair):
        raise t.error("`pad` makes no array shorter", "take a slice: `x[1:-1]`")
    if mode == "constant":
        for k, (sizes, values) in enumerate(
            zip(widths, _widths_by_axis(t, constant_values, rank), strict=True)
        ):
            x = _pad_axis_with(t, x, k, sizes, values)
        return x
    if mode not in ("edge", "wrap", "reflect", "symmetric"):
        raise t.error(
            f"`pad` with mode {mode!r}",
            "there are 'constant', 'edge', 'wrap', 'reflect' and 'symmetric'",
        )
    for k, (before, after) in enumerate(widths):
        x = _pad_axis(t, x, k, before, after, mode)
    return x


def _widths_by_axis(t: Any, value: Any, rank: int) -> list[list[Any]]:
    """Return a width for both ends of each axis, from one for all, one for both ends, or one for each."""

    def parts(widths: Any) -> Any:
        widths = t.listed(t._structure(widths))
        return list(widths) if isinstance(widths, tuple | list) else widths

    said = parts(value)
    rows = [*map(parts, said)] if isinstance(said, list) else [said]
    if not any(isinstance(row, list) for row in rows):  # `w`, `(w,)` or `(before, after)`
        rows = [rows]
    rows = [row * 2 if isinstance(row, list) and len(row) == 1 else row for row in rows]
    if len(rows) == 1:
        rows *= rank
    if len(rows) != rank or any(not isinstance(row, list) or len(row) != 2 for row in rows):
        raise t.error("`pad` takes one number, or two for each axis", "`((before, after), …)`")
    return rows


def _pad_axis_with(t: Any, x: Any, k: int, sizes: Sequence[int], values: Sequence[Any]) -> Any:
    """Return an array with constants before and after its entries along an axis.

    Args:
        sizes: how many before and after. values: which number before and after.
    """
    before, after = sizes
    n = t.dims(x)[k]
    if values == [0, 0]:
        return spliced(
            t, t.once(x), k, n + before + after, lambda i: [(in_range(i - before, n), i - before)]
        )
    own = [t.index(n) for n in t.dims(x)]
    first, last = (
        build(t, "broadcast_to", value, [*own[:k], size, *own[k + 1 :]])
        for value, size in zip(values, sizes, strict=True)
    )
    return concatenate(t, [first, x, last], k) if any(sizes) else x


def _pad_axis(t: Any, x: Any, k: int, before: int, after: int, mode: str) -> Any:
    """Return an array continued beyond both ends of an axis as NumPy's `mode` says: edge, reflect, symmetric, wrap."""
    if not before and not after:
        return x
    x = t.once(x)
    n, width = t.dims(x)[k], 0 if mode == "edge" else max(before, after)
    beyond = n if mode in ("edge", "reflect") else n + 1
    if n.is_constant and width >= beyond.constant:  # more than once round, or to and fro
        if n == ZERO:
            raise t.error("there is nothing to go on with beside an array without entries")
        places = np.pad(np.arange(n.constant), (before, after), cast("Any", mode)).tolist()
        return t.subscript(x, (*[slice(None)] * k, t.written_out(places)))
    t.looked("the padding", "the array", Affine.of(width), beyond, k, clips=True)

    def pieces(j: Affine) -> Sequence[tuple[Predicate, Affine]]:
        i = j - before
        left, right = {
            "edge": (ZERO, n - 1),
            "wrap": (i + n, i - n),
            "reflect": (i * -1, (n - 1) * 2 - i),
            "symmetric": (i * -1 - 1, n * 2 - 1 - i),
        }[mode]
        return [(compare("<", i, 0), left), (in_range(i, n), i), (compare("≤", n, i), right)]

    return spliced(t, x, k, n + before + after, pieces)


@form("stack")
def stack(t: Any, arrays: Any, axis: int = 0) -> Any:
    """Build NumPy's `stack`: arrays of one shape along a new axis."""
    if t.is_array(arrays) and arrays.written is None:  # of as many as a size says
        return build(t, "moveaxis", arrays, 0, axis)
    parts = [build(t, "expand_dims", x, axis) for x in t.several(arrays)]
    return concatenate(t, parts, axis)


@form("concatenate", "concat")
def concatenate(t: Any, arrays: Any, axis: Any = 0) -> Any:
    """Build NumPy's `concatenate`: arrays one after the other."""
    if axis is None:
        arrays, axis = [ravel(t, t.whole(x)) for x in t.several(arrays)], 0
    parts = [t.once(t.whole(x)) for x in t.several(arrays)]
    if not parts:
        raise t.error(
            "an empty list has no entries", "begin with those that are read: `y = [x[0]]`"
        )
    dims = list(t.dims(parts[0]))
    (k,) = axes_of(t, axis, len(dims))
    starts, length = [], ZERO
    for part in parts:
        own = t.dims(part)
        if len(own) != len(dims):
            raise t.error("arrays of different dimensions one after the other")
        for j, (m, n) in enumerate(zip(dims, own, strict=True)):
            if j != k:
                dims[j] = t.same(m, n)
        starts.append(length)
        length = length + own[k]
    dims[k] = length

    def entry(*at: Affine) -> Any:
        made = t.whole(0)
        for part, start in zip(parts, starts, strict=True):
            i = at[k] - start
            value = t.read(part, *at[:k], i, *at[k + 1 :])
            made = t.plus_of(made, t.conditioned(in_range(i, t.dims(part)[k]), value))
        return made

    return t.build(dims, entry, *parts)


@form("block")
def block(t: Any, arrays: Any) -> Any:
    """Build NumPy's `block`: lists of lists of arrays, the innermost side by side, the others below one another."""

    def joined(part: Any) -> tuple[Any, int]:
        part = t.listed(t._structure(part))
        if not isinstance(part, tuple | list):
            return t.whole(part), 0
        parts = [joined(x) for x in part]
        depth = parts[0][1] + 1
        each = [_prepend_axes(t, x, depth) for x, _ in parts]
        return concatenate(t, each, -depth), depth

    made, depth = joined(arrays)
    return _prepend_axes(t, made, depth)


def _prepend_axes(t: Any, x: Any, rank: int) -> Any:
    """Return x with axes of size 1 in front, up to a rank."""
    while len(t.dims(x)) < rank:
        x = build(t, "expand_dims", x, 0)
    return x


@form("repeat", method=True)
def repeat(t: Any, x: Any, repeats: Any, axis: Any = None) -> Any:
    """Build NumPy's `repeat`: `[x[k] for k in range(n) for _ in range(r)]`."""
    x, k = along_one(t, x, axis)
    repeats, dims = t.number(t.size_of(repeats)), list(t.dims(x))
    n = dims[k]
    dims[k] = n * repeats

    def entry(*at: Affine) -> Any:
        def term(i: Affine, r: Affine) -> Any:
            here = compare("=", at[k], i * repeats + r)
            return t.conditioned(here, t.read(x, *at[:k], i, *at[k + 1 :]))

        return t.total([n, Affine.of(repeats)], term, x)

    return t.build(dims, entry, x)


@form("sliding_window_view")
def sliding_window_view(t: Any, x: Any, window_shape: Any, axis: Any = None) -> Any:
    """Build NumPy's `sliding_window_view`: `[[x[i + j] for j in range(w)] for i in range(n - w + 1)]`."""
    x = t.once(t.whole(x))
    dims, windows = list(t.dims(x)), t.listed(window_shape)
    windows = [t.size_of(w) for w in (windows if isinstance(windows, tuple | list) else [windows])]
    rank = len(dims)
    axis = t.listed(axis)
    several = axis if isinstance(axis, tuple | list) else range(rank) if axis is None else [axis]
    axes = [axes_of(t, k, rank)[0] for k in several]
    if len(axes) != len(windows):
        raise t.error(f"windows of {len(windows)} dimensions along {len(axes)} axes")
    for k, w in zip(axes, windows, strict=True):
        t.looked("the window", "the array", w - 1, dims[k], k)
        dims[k] = dims[k] - w + 1

    def entry(*at: Affine) -> Any:
        places = list(at[:rank])
        for k, j in zip(axes, at[rank:], strict=True):
            places[k] = places[k] + j
        return t.read(x, *places)

    return t.build([*dims, *windows], entry, x)


@form("copy", "array", "block_until_ready", method=True)
def copy(t: Any, x: Any, dtype: Any = None) -> Any:
    """Build NumPy's `copy`: the array itself, since arrays never change."""
    made = astype(t, x, dtype)
    kind = "" if dtype is not None else numbers_of(t.whole(x))
    return t.of_numbers(t.no_list(made), kind) if kind else made


@form("astype", method=True)
def astype(t: Any, x: Any, dtype: Any = None) -> Any:
    """Build NumPy's `astype`: the array itself, or a list's entries as one; numbers have the arguments' type."""
    return t.typed(t.copied(stacked(t, x)), dtype)


def stacked(t: Any, x: Any) -> Any:
    """Return a list of arrays, or of such lists, as one array; an array unchanged."""
    x = t._structure(x)
    if isinstance(x, tuple | list):
        return stack(t, [stacked(t, part) for part in x])
    return t.whole(x)


@attribute("at")
def at(t: Any, x: Any) -> Any:
    """Build `x.at`, whose methods return the array with some entries changed."""
    return t.changeable(x)


@attribute("dtype")
def dtype(t: Any, x: Any) -> Any:
    """Return `float`, since numbers are real here."""
    return float


@attribute("real")
def real(t: Any, x: Any) -> Any:
    """Return x, since numbers are real here."""
    return x
