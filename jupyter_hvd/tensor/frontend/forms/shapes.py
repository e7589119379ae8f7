"""The same entries in another shape or order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from ...language.affine import Affine
from ...language.predicates import Predicate, compare, conj, in_range
from .reductions import axes_of
from .table import attribute, build, form

ONE = Affine.of(1)
ZERO = Affine.of(0)


@form("transpose", "permute_dims", method=True)
def transpose(t: Any, x: Any, *axes: Any) -> Any:
    """`A[j, i]`, or the axes in the order that is named."""
    if t.is_index_array(x) and not axes:
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
    """`x.T`: the axes in reverse."""
    return transpose(t, x)


@attribute("mT")
def matrix_transposed(t: Any, x: Any) -> Any:
    """`x.mT`: the last two axes exchanged."""
    return build(t, "swapaxes", x, -1, -2)


@form("reshape", method=True)
def reshape(t: Any, x: Any, *shape: Any, order: str = "C") -> Any:
    """Entry k of the flattened array at place k of the new shape; with `order="F"` by columns, as of what is transposed."""
    if shape and isinstance(shape[-1], str):
        shape, order = shape[:-1], shape[-1]
    x = t.once(t.whole(x))
    dims = t.dims(x)
    if len(shape) == 1 and isinstance(shape[0], tuple | list):
        shape = tuple(shape[0])
    if len(shape) == 1:
        shape = tuple(s) if isinstance(s := t.listed(shape[0]), list) else shape
    if _by_columns(t, order):
        return transpose(t, reshape(t, transpose(t, x), *reversed(shape)))
    wanted = [None if n == -1 and isinstance(n, int) else t.size_of(n) for n in shape]
    kept = [n for n in dims if n != ONE]
    if None not in wanted and [n for n in wanted if n != ONE] == kept:
        # Axes of size 1 come and go.
        def moved(*at: Affine) -> Any:
            inner = iter(a for a, n in zip(at, wanted, strict=True) if n != ONE)
            return t.read(x, *(ZERO if n == ONE else next(inner) for n in dims))

        return t.build(wanted, moved, x)
    sizes = [t.number(n) for n in dims]
    whole = _multiplied(sizes)
    known = [-1 if n is None else t.number(n) for n in wanted]
    rest = _multiplied([n for n in known if n >= 0])
    numbers = [whole // rest if n < 0 and rest else n for n in known]
    if min(numbers, default=0) < 0 or _multiplied(numbers) != whole:
        raise t.error(f"{whole} entries do not fit into the shape {tuple(shape)}")
    return _regrouped(t, x, sizes, numbers)


def _by_columns(t: Any, order: str) -> bool:
    if order not in ("C", "F"):
        raise t.error(f"order {order!r} depends on how NumPy stores the array", "`C` or `F`")
    return order == "F"


def _multiplied(numbers: Sequence[int]) -> int:
    product = 1
    for n in numbers:
        product *= n
    return product


def _regrouped(t: Any, x: Any, sizes: Sequence[int], wanted: Sequence[int]) -> Any:
    """`⊞ at. Σ k. [flat(k) = flat(at)]·x[k]`, which has one term; axes by which both go alike stay."""
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
    """The rows one after the other, or the columns."""
    x = t.whole(x)
    x = transpose(t, x) if _by_columns(t, order) else x
    return x if len(t.dims(x)) == 1 else reshape(t, x, -1)


@form("squeeze", method=True)
def squeeze(t: Any, x: Any, axis: Any = None) -> Any:
    """Without axes of size 1."""
    x = t.plainly(t.whole(x))
    dims = t.dims(x)
    gone = (
        [k for k, n in enumerate(dims) if n == ONE] if axis is None else axes_of(t, axis, len(dims))
    )
    for k in gone:
        t.same(dims[k], ONE)
    kept = [k for k in range(len(dims)) if k not in gone]
    return t.build(
        [dims[k] for k in kept],
        lambda *at: t.read(
            x, *(ZERO if k in gone else at[kept.index(k)] for k in range(len(dims)))
        ),
        x,
    )


@form("expand_dims")
def expand_dims(t: Any, x: Any, axis: Any) -> Any:
    """With axes of size 1, where the result has them."""
    x = t.plainly(t.whole(x))
    named = t.listed(axis)
    several = len(named) if isinstance(named, tuple | list) else 1
    rank = len(t.dims(x)) + several
    new = axes_of(t, named, rank)
    if len({*new}) < several:
        raise t.error("`expand_dims` names an axis twice")
    old = iter(t.dims(x))
    dims = [ONE if k in new else next(old) for k in range(rank)]
    return t.build(dims, lambda *at: t.read(x, *(i for k, i in enumerate(at) if k not in new)), x)


@form("broadcast_to")
def broadcast_to(t: Any, x: Any, shape: Any) -> Any:
    """x repeated along axes that it has not, or only one entry of."""
    x = t.once(t.whole(x))
    dims = t.shape_of(shape)
    for own, wanted in zip(t.dims(x)[::-1], dims[::-1], strict=False):
        t.meet(own, wanted)
    return t.build(dims, lambda *at: t._aligned(x, at), x)


@form("flip")
def flip(t: Any, x: Any, axis: Any = None) -> Any:
    """`x[n - 1 - i]`."""
    x = t.plainly(t.whole(x))
    dims = t.dims(x)
    turned = axes_of(t, axis, len(dims))
    return t.build(
        dims,
        lambda *at: t.read(x, *(dims[k] - 1 - a if k in turned else a for k, a in enumerate(at))),
        x,
    )


@form("roll")
def roll(t: Any, x: Any, shift: Any, axis: Any = None) -> Any:
    """`x[i - shift]`, what falls off at one end at the other."""
    x = t.whole(x)
    shifts, axes = (
        each if isinstance(each := t.listed(one), tuple | list) else [each] for one in (shift, axis)
    )
    if len(shifts) > 1 or len(axes) > 1:
        many = max(len(shifts), len(axes))
        shifts, axes = (one * many if len(one) == 1 else one for one in (shifts, axes))
        if len(shifts) != len(axes):
            raise t.error("`roll` takes a shift for each axis")
        for one, k in zip(shifts, axes, strict=True):
            x = roll(t, x, one, k)
        return x
    (shift,), (axis,) = shifts, axes
    if axis is None and len(t.dims(x)) != 1:
        return reshape(t, roll(t, ravel(t, x), shift), [t.index(n) for n in t.dims(x)])
    (k,) = axes_of(t, 0 if axis is None else axis, len(t.dims(x)))
    x = t.once(x)
    dims = t.dims(x)
    n = dims[k]
    if t.varies(size := t.size_of(shift)):

        def around(*at: Affine) -> Any:
            row = t.build([n], lambda j: t.read(x, *at[:k], j, *at[k + 1 :]), x)
            return t.entry_around(row, at[k] - size, n)

        return t.build(dims, around, x)
    shift = t.number(size)
    if n.is_constant:
        shift %= max(1, n.constant)
    first = n + shift if shift < 0 else Affine.of(shift)  # place of what was the first entry
    if shift:
        t.looked("the roll of the array", "it", Affine.of(abs(shift)), n + 1, k, clips=True)

    def entry(*at: Affine) -> Any:
        i = at[k]

        def moved(p: Predicate, a: Affine) -> Any:
            return t.conditioned(p, t.read(x, *at[:k], a, *at[k + 1 :]))

        return t.plus_of(
            moved(compare("≤", first, i), i - first), moved(compare("<", i, first), i + n - first)
        )

    return t.build(dims, entry, x)


@form("pad")
def pad(t: Any, x: Any, width: Any, mode: str = "constant", constant_values: Any = 0) -> Any:
    """`x[i - before] if 0 <= i - before < n else 0`."""
    x = t.once(t.whole(x))
    rank = len(t.dims(x))
    widths = [[t.number(t.size_of(w)) for w in pair] for pair in _each_end(t, width, rank)]
    if any(w < 0 for pair in widths for w in pair):
        raise t.error("`pad` makes no array shorter", "take a slice: `x[1:-1]`")
    if mode == "constant":
        values = _each_end(t, constant_values, rank)
        if all(isinstance(v, int | float) and v == values[0][0] for pair in values for v in pair):
            return _padded(t, x, widths, values[0][0])
        for k, ((before, after), (low, high)) in enumerate(zip(widths, values, strict=True)):
            own = [t.index(n) for n in t.dims(x)]
            sizes = [[*own[:k], w, *own[k + 1 :]] for w in (before, after)]
            first, last = (
                broadcast_to(t, v, size) for v, size in zip((low, high), sizes, strict=True)
            )
            x = concatenate(t, [first, x, last], k)
        return x
    if mode not in ("edge", "wrap", "reflect", "symmetric"):
        raise t.error(
            f"`pad` with mode {mode!r}",
            "there are 'constant', 'edge', 'wrap', 'reflect' and 'symmetric'",
        )
    for k, (before, after) in enumerate(widths):
        x = _continued(t, x, k, before, after, mode)
    return x


def _each_end(t: Any, value: Any, rank: int) -> list[list[Any]]:
    """What is said once, for both ends, or for both ends of each axis, as the last."""

    def parts(one: Any) -> Any:
        one = t.listed(t._structure(one))
        return list(one) if isinstance(one, tuple | list) else one

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


def _padded(t: Any, x: Any, widths: Any, constant: Any) -> Any:
    dims = t.dims(x)

    def entry(*at: Affine) -> Any:
        inner = [a - before for a, (before, _) in zip(at, widths, strict=True)]
        here = conj(*(in_range(a, n) for a, n in zip(inner, dims, strict=True)))
        value = t.conditioned(here, t.read(x, *inner))
        if constant == 0:
            return value
        return t.plus_of(value, t.conditioned(t._negation(here), t.whole(constant)))

    out = [n + before + after for n, (before, after) in zip(dims, widths, strict=True)]
    return t.build(out, entry, x)


def _continued(t: Any, x: Any, k: int, before: int, after: int, mode: str) -> Any:
    if not before and not after:
        return x
    x = t.once(x)
    dims = list(t.dims(x))
    n, width = dims[k], 0 if mode == "edge" else max(before, after)
    beyond = n if mode in ("edge", "reflect") else n + 1
    if n.is_constant and width >= beyond.constant:  # more than once round, or to and fro
        if n == ZERO:
            raise t.error("there is nothing to go on with beside an array without entries")
        places = np.pad(np.arange(n.constant), (before, after), cast("Any", mode)).tolist()
        return t.subscript(x, (*[slice(None)] * k, t.written_out(places)))
    t.looked("the padding", "the array", Affine.of(width), beyond, k, clips=True)

    def entry(*at: Affine) -> Any:
        i = at[k] - before
        left, right = {
            "edge": (ZERO, n - 1),
            "wrap": (i + n, i - n),
            "reflect": (i * -1, (n - 1) * 2 - i),
            "symmetric": (i * -1 - 1, n * 2 - 1 - i),
        }[mode]

        def moved(p: Predicate, a: Affine) -> Any:
            return t.conditioned(p, t.read(x, *at[:k], a, *at[k + 1 :]))

        low, high = moved(compare("<", i, 0), left), moved(compare("≤", n, i), right)
        inside = moved(in_range(i, n), i)
        return t.plus_of(t.plus_of(low, inside), high)

    dims[k] = n + before + after
    return t.build(dims, entry, x)


@form("stack")
def stack(t: Any, arrays: Any, axis: int = 0) -> Any:
    """Arrays of one shape along a new axis."""
    if t.is_array(arrays) and arrays.written is None:  # of as many as a size says
        return build(t, "moveaxis", arrays, 0, axis)
    parts = [expand_dims(t, x, axis) for x in t.several(arrays)]
    return concatenate(t, parts, axis)


@form("concatenate", "concat")
def concatenate(t: Any, arrays: Any, axis: Any = 0) -> Any:
    """One after the other: each array where the ones before it end."""
    if axis is None:
        arrays, axis = [ravel(t, t.whole(x)) for x in t.several(arrays)], 0
    parts = [t.once(t.whole(x)) for x in t.several(arrays)]
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
    """Lists of lists of arrays: the innermost side by side, those around them one under the other."""

    def joined(part: Any) -> tuple[Any, int]:
        part = t.listed(t._structure(part))
        if not isinstance(part, tuple | list):
            return t.whole(part), 0
        parts = [joined(x) for x in part]
        depth = parts[0][1] + 1
        each = [_at_least(t, x, depth) for x, _ in parts]
        return concatenate(t, each, -depth), depth

    made, depth = joined(arrays)
    return _at_least(t, made, depth)


def _at_least(t: Any, x: Any, rank: int) -> Any:
    while len(t.dims(x)) < rank:
        x = expand_dims(t, x, 0)
    return x


@form("delete")
def delete(t: Any, x: Any, place: Any, axis: Any = None) -> Any:
    """What is before a place, and what is behind it."""
    x = t.whole(x)
    if axis is None:
        x, axis = ravel(t, x), 0
    (k,) = axes_of(t, axis, len(t.dims(x)))
    n = t.dims(x)[k]
    here = t.affine(t._as_size(place), "a place")
    if here.is_constant and here.constant < 0:
        here = n + here.constant
    t.looked("the place that is deleted", "the array", here, n, k)
    x = t.once(x)
    dims = [*t.dims(x)[:k], n - 1, *t.dims(x)[k + 1 :]]

    def entry(*at: Affine) -> Any:
        i = at[k]

        def moved(p: Predicate, a: Affine) -> Any:
            return t.conditioned(p, t.read(x, *at[:k], a, *at[k + 1 :]))

        return t.plus_of(moved(compare("<", i, here), i), moved(compare("≤", here, i), i + 1))

    return t.build(dims, entry, x)


@form("repeat", method=True)
def repeat(t: Any, x: Any, repeats: Any, axis: Any = None) -> Any:
    """Each entry several times: `[x[k] for k in range(n) for _ in range(r)]`."""
    x = t.whole(x)
    if axis is None:
        x, axis = ravel(t, x), 0
    repeats = t.number(t.size_of(repeats))
    x = t.once(x)
    dims = list(t.dims(x))
    (k,) = axes_of(t, axis, len(dims))
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
    """The windows at every place: `[[x[i + j] for j in range(w)] for i in range(n - w + 1)]`."""
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


@form("take", method=True)
def take(t: Any, x: Any, indices: Any, axis: Any = None) -> Any:
    """`x[src]`, along an axis."""
    x = t.whole(x)
    if axis is None:
        x, axis = ravel(t, x), 0
    (k,) = axes_of(t, axis, len(t.dims(x)))
    return t.subscript(x, (*[slice(None)] * k, indices))


@form("copy", "array", "block_until_ready", method=True)
def copy(t: Any, x: Any, dtype: Any = None) -> Any:
    """The array itself."""
    made = astype(t, x, dtype)
    kind = "" if dtype is not None else t.numbers_of(t.whole(x))
    return t.of_numbers(t.no_list(made), kind) if kind else made


@form("astype", method=True)
def astype(t: Any, x: Any, dtype: Any = None) -> Any:
    """The array itself, or a list's entries as one: numbers are of the arguments' type."""
    return t.typed(t.copied(stacked(t, x)), dtype)


def stacked(t: Any, x: Any) -> Any:
    """An array as it is; of a list of arrays, or of such lists, one array."""
    x = t._structure(x)
    if isinstance(x, tuple | list):
        return stack(t, [stacked(t, part) for part in x])
    return t.whole(x)


@attribute("at")
def at(t: Any, x: Any) -> Any:
    return t.changeable(x)


@attribute("dtype")
def dtype(t: Any, x: Any) -> Any:
    """`float`: numbers are real here."""
    return float


@attribute("real")
def real(t: Any, x: Any) -> Any:
    """`x`: numbers are real here."""
    return x
