"""Reading arrays at affine indices: permutations, slices, strides, reversals and diagonals as
views that XLA fuses, windows and what else overlaps as gathers.

An index space is a dict of axes and their extents, in order. What is read comes as an array and the
axes that it has; it is zero where an index lies outside the array.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import reduce
from math import prod
from typing import Any

import jax.numpy as jnp
from jax import lax

from ..language.affine import Affine
from ..lowering.strategy import sharing_axes
from ..polyhedral.points import Aligned


@dataclass
class Space:
    """The axes of a step, and the entries of index arrays that its indices use."""

    extents: dict[str, int]
    entries: dict[str, Aligned] = field(default_factory=dict)
    turns: dict[str, int] = field(default_factory=dict)  # entries that hold a turn of so many
    below: dict[str, int] = field(default_factory=dict)  # what entries are below, where it is known

    def index(self, a: Affine) -> Aligned:
        """Return an affine expression as an array of int32 over those axes on which it depends."""
        names = set(a.names) - self.entries.keys()
        names = names.union(*(self.entries[n][1] for n in a.names if n in self.entries))
        axes = tuple(n for n in self.extents if n in names)
        total: Any = jnp.asarray(a.constant, jnp.int32)
        for place, name in enumerate(axes):  # in this order: what lies alike is the same to XLA
            if k := a.coefficient(name):
                shape = [1] * len(axes)
                shape[place] = self.extents[name]
                total = total + k * lax.broadcasted_iota(jnp.int32, tuple(shape), place)
        for name, k in a.terms:
            if name in self.entries:
                total = total + k * align(self.entries[name], axes)
        return jnp.broadcast_to(total, tuple(self.extents[n] for n in axes)), axes

    def is_within(self, a: Affine, extent: int) -> bool:
        """Return whether an affine expression is known to lie in `range(extent)`, so that no bounds check is needed."""
        known = {**self.extents, **self.below}
        if not a.names <= known.keys():
            return False
        low, high = a.value_range(known)
        return low >= 0 and high < extent

    def shape(self, axes: Sequence[str]) -> tuple[int, ...]:
        """Return the extents of some axes."""
        return tuple(self.extents[n] for n in axes)


def align(value: Aligned, axes: Sequence[str]) -> Any:
    """Return an array transposed to the order of `axes`, with length 1 along every axis that it does not have; then arrays
    broadcast.
    """
    array, has = value
    order = [has.index(n) for n in axes if n in has]
    if order != sorted(order):
        array = jnp.transpose(array, order)
    if len(has) == len(axes):
        return array
    missing = [k for k, n in enumerate(axes) if n not in has]
    return jnp.expand_dims(array, missing)


def read(array: Any, indices: Sequence[Affine], space: Space, ordered: bool = True) -> Aligned:
    """Return `array[indices]` at every point of a space, zero where an index lies outside.

    Args:
        indices: one expression for each dimension of the array, over the space's axes and entries.

    Returns:
        The array and its axes: those of the space that occur in `indices`, in the order of the space if `ordered`, else as
            they lie in memory.
    """
    array, indices = _slice_at_starts(array, indices, space)
    if any(a.names & space.entries.keys() for a in indices):
        array, axes = _read_with_lookups(array, indices, space)
    else:
        array, axes = _read_affine(array, list(indices), space)
    order = tuple(n for n in space.extents if n in axes)
    return (align((array, axes), order), order) if ordered else (array, axes)


def _slice_at_starts(
    array: Any, indices: Sequence[Affine], space: Space
) -> tuple[Any, Sequence[Affine]]:
    """Cut out the part that is read where an index starts at data, as `x[s + i]`; return it and the indices in it.

    Only where the start is the same at every point and has a known bound. There are zeros where the part reaches beyond the
    array.
    """
    found = list(indices)
    for d, a in enumerate(indices):
        numbers = [n for n in a.names & space.entries.keys() if not space.entries[n][1]]
        start = sum((Affine.of(n) * a.coefficient(n) for n in numbers), Affine.of(a.constant))
        if not numbers or not {*numbers} <= space.below.keys():
            continue
        axes = a - start
        if not axes.names <= space.extents.keys():
            continue
        (low, high), (first, last) = axes.value_range(space.extents), start.value_range(space.below)
        before, after = max(0, -low - first), max(0, high + last + 1 - array.shape[d])
        padding = [(0, 0, 0)] * array.ndim
        padding[d] = before, after, 0
        array = lax.pad(array, jnp.zeros((), array.dtype), padding) if before or after else array
        begin = space.index(start + low + before)[0]
        array = lax.dynamic_slice_in_dim(array, begin, high - low + 1, d)
        found[d] = axes - low
    return array, found


# Affine indices


def _read_affine(array: Any, indices: Sequence[Affine], space: Space) -> Aligned:
    """Read an array at affine indices by slicing, without gathers; return it and its axes.

    Dimensions that share an axis are flattened into one first: a diagonal is a strided slice.
    """
    groups = sharing_axes(indices)
    dims = [d for group in groups for d in group]
    if dims != sorted(dims):
        array = jnp.transpose(array, dims)
    axes: list[str] = []
    place = 0
    for group in groups:
        address, array = _flatten_dimensions(array, place, [indices[d] for d in group], space)
        if address is None:
            return _gather_rest(array, [indices[d] for d in dims], space, axes, place)
        array, found = _read_strided(
            array, place, address.constant, _terms_with_extents(address, space)
        )
        axes += found
        place += len(found)
    return array, tuple(axes)


def _terms_with_extents(address: Affine, space: Space) -> list[tuple[str, int, int]]:
    """Return each term of an address as (axis, coefficient, extent of the axis)."""
    return [(name, k, space.extents[name]) for name, k in address.terms]


def _flatten_dimensions(
    array: Any, place: int, indices: Sequence[Affine], space: Space
) -> tuple[Affine | None, Any]:
    """Flatten some dimensions into one; return the address in it and the array. The address is None if that takes too much
    padding.
    """
    if len(indices) == 1:
        return indices[0], array
    padding, shape = [(0, 0, 0)] * array.ndim, []
    moved = []
    for k, a in enumerate(indices):
        low, high = a.value_range(space.extents)
        n = array.shape[place + k]
        before, after = max(0, -low), max(0, high - (n - 1))
        padding[place + k] = (before, after, 0)
        shape.append(n + before + after)
        moved.append(a + before)
    own = array.shape[place : place + len(indices)]
    if prod(shape) > 4 * prod(own) + 1024:
        return None, array
    if any(low or high for low, high, _ in padding):
        array = lax.pad(array, jnp.zeros((), array.dtype), padding)
    address = Affine.of(0)
    for n, a in zip(shape, moved, strict=True):
        address = address * n + a
    after_ = array.shape[place + len(indices) :]
    return address, array.reshape(*array.shape[:place], prod(shape), *after_)


def _read_strided(
    array: Any, place: int, base: int, terms: list[tuple[str, int, int]]
) -> tuple[Any, list[str]]:
    """Return `array[…, base + Σ k·i, …]` along one dimension, for `terms` (i, k, extent), and the axes in the order of the
    result.
    """
    for position, (name, k, extent) in enumerate(terms):
        if k < 0:  # Read from the other end, then turn round.
            terms = [*terms]
            terms[position] = (name, -k, extent)
            array, axes = _read_strided(array, place, base + k * (extent - 1), terms)
            return jnp.flip(array, place + axes.index(name)), axes
    if not terms:
        return jnp.squeeze(slice_with_zeros(array, place, base, base + 1), place), []
    terms = sorted(terms, key=lambda term: -term[1])
    (name, k, extent), rest = terms[0], terms[1:]
    if not rest:
        array = slice_with_zeros(array, place, base, base + k * (extent - 1) + 1)
        return (array if k == 1 else lax.slice_in_dim(array, 0, None, k, place)), [name]
    if sum(j * (n - 1) for _, j, n in rest) < k:
        array = slice_with_zeros(array, place, base, base + k * extent)
        array = array.reshape(*array.shape[:place], extent, k, *array.shape[place + 1 :])
        array, axes = _read_strided(array, place + 1, 0, rest)
        return array, [name, *axes]
    # A window: XLA fuses a gather into what reads it, and copies stacked slices.
    space = Space({i: n for i, _, n in terms})
    window = Affine.of(base) + _add_terms(terms)
    index, over = space.index(window)
    n = array.shape[place]
    taken = jnp.take(array, index, place, mode="clip")
    low, high = window.value_range(space.extents)
    if low >= 0 and high < n:
        return taken, list(over)
    shape = [1] * place + list(index.shape) + [1] * (array.ndim - place - 1)
    inside = ((index >= 0) & (index < n)).reshape(shape)
    return jnp.where(inside, taken, jnp.zeros((), array.dtype)), list(over)


def _add_terms(terms: Sequence[tuple[str, int, int]]) -> Affine:
    """Return the address `Σ k·i` of terms (i, k, extent)."""
    total = Affine.of(0)
    for name, k, _ in terms:
        total = total + Affine.of(name) * k
    return total


def slice_with_zeros(array: Any, place: int, start: int, stop: int) -> Any:
    """Return `array[…, start:stop, …]` along dimension `place`, with zeros where that reaches beyond the array."""
    n = array.shape[place]
    if (start, stop) == (0, n):
        return array
    if stop <= 0 or start >= n:
        shape = (*array.shape[:place], stop - start, *array.shape[place + 1 :])
        return jnp.zeros(shape, array.dtype)
    inner = lax.slice_in_dim(array, max(0, start), min(n, stop), 1, place)
    if start >= 0 and stop <= n:
        return inner
    padding = [(0, 0, 0)] * array.ndim
    padding[place] = (max(0, -start), max(0, stop - n), 0)
    return lax.pad(inner, jnp.zeros((), array.dtype), padding)


def _gather_rest(
    array: Any, indices: Sequence[Affine], space: Space, axes: list[str], place: int
) -> Aligned:
    """Gather along the dimensions from `place` on, at computed indices; those before it have been read already."""
    done = len(axes)
    left = indices[len(indices) - (array.ndim - place) :]
    array, more = _gather_leading(jnp.moveaxis(array, range(done), range(-done, 0)), left, space)
    array = jnp.moveaxis(array, range(-done, 0), range(done)) if done else array
    return array, (*axes, *more)


# Indices that data give


def _read_with_lookups(array: Any, indices: Sequence[Affine], space: Space) -> Aligned:
    """Read an array at indices of which some come from data: affine ones by slicing first, the rest by a gather."""
    axes_of = [set(space.index(a)[1]) for a in indices]
    by_data = [bool(a.names & space.entries.keys()) for a in indices]
    together = set().union(*(axes_of[d] for d, data in enumerate(by_data) if data))
    while True:
        joined = [d for d, axes in enumerate(axes_of) if by_data[d] or axes & together]
        grown = together.union(*(axes_of[d] for d in joined))
        if grown == together:
            break
        together = grown
    apart = [d for d in range(len(indices)) if d not in joined]
    array = jnp.transpose(array, (*joined, *apart))
    array, more = _gather_leading(array, [indices[d] for d in joined], space)
    if not apart:
        return array, more
    # The gathered axes stay whole while the other dimensions are read.
    whole = {f"·{n}": n for n in more}
    inner = Space({**dict(zip(whole, array.shape, strict=False)), **space.extents})
    places = [*map(Affine.of, whole), *(indices[d] for d in apart)]
    array, axes = _read_affine(array, places, inner)
    return array, tuple(whole.get(n, n) for n in axes)


def _gather_leading(array: Any, indices: Sequence[Affine], space: Space) -> Aligned:
    """Gather along the leading dimensions at computed indices, and keep the others whole behind them."""
    values = [space.index(a) for a in indices]
    axes = tuple(n for n in space.extents if any(n in has for _, has in values))
    rest = array.shape[len(indices) :]
    if 0 in array.shape:
        return jnp.zeros((*space.shape(axes), *rest), array.dtype), axes
    columns = [jnp.broadcast_to(align(value, axes), space.shape(axes)) for value in values]
    count = len(axes)
    numbers = lax.GatherDimensionNumbers(
        offset_dims=tuple(range(count, count + len(rest))),
        collapsed_slice_dims=tuple(range(len(indices))),
        start_index_map=tuple(range(len(indices))),
    )
    window = (*[1] * len(indices), *rest)
    places = jnp.stack(columns, count)
    if all(space.is_within(a, n) for a, n in zip(indices, array.shape, strict=False)):
        mode = lax.GatherScatterMode.PROMISE_IN_BOUNDS
        return lax.gather(array, places, numbers, window, mode=mode), axes
    # Not `FILL_OR_DROP`, for which XLA on CPUs stores the indices, to read them twice.
    found = lax.gather(array, places, numbers, window, mode=lax.GatherScatterMode.CLIP)
    inside = reduce(
        jnp.logical_and,
        [(c >= 0) & (c < n) for c, n in zip(columns, array.shape, strict=False)],
    )
    inside = jnp.expand_dims(inside, range(count, count + len(rest)))
    return jnp.where(inside, found, jnp.zeros((), array.dtype)), axes
