"""The values that steps read: arrays made so far, data of relations, and fusion barriers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..language.affine import Affine
from ..language.types import IndexArray, ParameterType, Relation, TupleSet
from ..lowering.dataflow import FENCED
from ..lowering.device import CPU, Device
from ..lowering.ir import Access, IndexLookup
from ..polyhedral.points import Aligned
from .access import Space, align
from .access import read as read_at
from .masks import find_row


@dataclass
class Values:
    """What steps compute with, in `dtype`: `arguments` are the real parameters, as nested pairs;
    `data` has the type and the data of each relation: a boolean array or one of integers, of the
    type's dimensions, or an array of index tuples, one a row, in order. `arrays` are those that
    steps have made, each of its action's `shape`.

    `around` has arrays with zeros around them, and where in it they start. `both_ways` are the arrays
    that are read straight and turned round, `inverted` has of reciprocals what they are of, `turns` of
    relations that hold the iteration of a loop how many there are. `device` is the kind of device for which
    strategies are chosen, `offsets` the first row of the block or the share that runs, scalars by name, `offsets_below` what some
    are below, `made` the types of
    the index arrays that steps make. `under_shard_map` says
    that XLA is to see the program without barriers, to divide it among devices.
    """

    dtype: Any
    arguments: Mapping[str, Any]
    data: Mapping[str, tuple[ParameterType, Any]]
    arrays: dict[str, Any] = field(default_factory=dict)
    around: dict[str, tuple[Any, tuple[int, ...]]] = field(default_factory=dict)
    both_ways: frozenset[str] = frozenset()
    inverted: dict[str, Any] = field(default_factory=dict)
    turns: Mapping[str, int] = field(default_factory=dict)
    device: Device = CPU.without_windows
    under_shard_map: bool = False
    offsets: Mapping[str, Any] = field(default_factory=dict)
    offsets_below: Mapping[str, int] = field(default_factory=dict)
    made: Mapping[str, ParameterType] = field(default_factory=dict)

    def relation(self, name: str) -> tuple[ParameterType, Any]:
        """Return a relation's type and data; one that a step made is a boolean array, or has a type in `made`."""
        if name in self.data:
            return self.data[name]
        return self.made.get(name, Relation(())), self.arrays[name]


def fusion_barrier(array: Any, values: Values, change: Callable[[Any], Any] = lambda x: x) -> Any:
    """Return `change(array)`, computed once and before what reads it.

    XLA for CPUs computes an entry again for each shifted or transposed read that it fuses, behind a branch for each padding: a
    stencil of a stencil runs thirty times slower than two stencils. It fuses nothing across a conditional, and does not see
    that this one's condition is always true.
    """
    if not pays_barrier(array.size, values):
        return change(array)
    return lax.cond(hidden_true(values), change, lambda x: jnp.zeros_like(change(x)), array)


def pays_barrier(entries: int, values: Values) -> bool:
    """Return whether a barrier after an array of so many entries pays, and can be made."""
    return entries >= FENCED and can_have_barrier(values)


def can_have_barrier(values: Values) -> bool:
    """Return whether XLA can be kept from fusing, and has to be."""
    plain = not values.under_shard_map and bool(_nonempty_arguments(values))
    return plain and jax.default_backend() == "cpu"


def _nonempty_arguments(values: Values) -> list[Any]:
    """Return the arguments that have entries."""
    return [x for x in jax.tree_util.tree_leaves(values.arguments) if jnp.size(x)]


def hidden_true(values: Values) -> Any:
    """Return a condition that is true, but not known to XLA to be; made of an argument, as those are there first."""
    return truth_of(_nonempty_arguments(values)[0])


def truth_of(array: Any) -> Any:
    """Return true, such that XLA does not know it, from the first entry of an array of floats."""
    first = jnp.asarray(array).ravel()[0]
    return (first == first) | (first != first)


def read_in_order(read: Access, space: Space, values: Values) -> Aligned:
    """Return what an access reads, with its axes in the order of the space."""
    array, indices = _padded_source(read, space, values)
    found, axes = read_at(array, indices, space, False)
    order = tuple(n for n in space.extents if n in axes)
    if axes == order:
        return found, axes
    if read.array in values.both_ways:
        found, axes = read_at(copy_apart(array, values), read.indices, space, False)
    return align((found, axes), order), order


def _padded_source(read: Access, space: Space, values: Values) -> tuple[Any, Sequence[Affine]]:
    """Return the array that is read, or its copy with zeros around it if a read goes beyond its ends; and the indices in it."""
    array = values.arrays[read.array]
    if read.array not in values.around:
        return array, read.indices
    if all(low >= 0 and high < n for low, high, n in _reached_places(read, array.shape, space)):
        return array, read.indices
    wide, starts = values.around[read.array]
    return wide, [a + start for a, start in zip(read.indices, starts, strict=True)]


def _reached_places(read: Access, shape: Sequence[int], space: Space) -> list[tuple[int, int, int]]:
    """Return for each dimension the first and last place that is read, as far as axes say, and the extent."""
    known = space.extents
    ends = [a.value_range(known) if a.names <= known.keys() else (0, 0) for a in read.indices]
    return [(low, high, n) for (low, high), n in zip(ends, shape, strict=True)]


def is_inside(read: Access, shape: Sequence[int], space: Space) -> bool:
    """Return whether a read is at affine indices that never lie outside of its array."""
    affine = all(a.names <= space.extents.keys() for a in read.indices)
    return affine and all(
        low >= 0 and high < n for low, high, n in _reached_places(read, shape, space)
    )


def copy_apart(array: Any, values: Values) -> Any:
    """Return a distinct copy, so that XLA does not fuse straight and transposed reads of one array.

    In `A + Aᵀ` it may walk through both in an order that suits neither, up to ten times slower. Rows of multiples of 2 KiB are
    padded, against conflicts in the same lines of the cache.
    """
    if not pays_barrier(array.size, values):
        return array
    zero, n = jnp.zeros((), array.dtype), array.shape[-1]
    if n * array.dtype.itemsize % 2048:
        return jnp.where(hidden_true(values), array, zero)
    padding = [(0, 0, 0)] * (array.ndim - 1) + [(0, 16, 0)]
    longer = fusion_barrier(array, values, lambda x: lax.pad(x, zero, padding))
    return lax.slice_in_dim(longer, 0, n, axis=array.ndim - 1)


def hide_from_xla(array: Any, values: Values) -> Any:
    """Return an array that XLA does not know to be equal to the given one."""
    if _differentiates_barriers():
        return lax.optimization_barrier(array)
    return jnp.where(hidden_true(values), array, jnp.zeros((), array.dtype))


@cache
def _differentiates_barriers() -> bool:
    """Return whether this JAX differentiates and batches `optimization_barrier`; JAX 0.4.34 does not."""
    with suppress(NotImplementedError):
        jax.eval_shape(lambda x: jax.jvp(lax.optimization_barrier, (x,), (x,)), 0.0)
        jax.eval_shape(jax.vmap(lax.optimization_barrier), jnp.zeros(1))
        return True
    return False


def look_up_entries(lookups: Sequence[IndexLookup], space: Space, values: Values) -> None:
    """Store in a space the entries of index arrays that its indices use, and the offsets of blocks and shares."""
    for name, first in values.offsets.items():
        space.entries[name] = first, ()
    space.below.update(values.offsets_below)
    for lookup in lookups:
        type_, array = values.relation(lookup.relation)
        if lookup.searched:
            found, axes = find_row(jnp.asarray(array), lookup.subscripts, space)
        elif isinstance(type_, TupleSet):
            row, column = lookup.subscripts
            array = jnp.asarray(array)[:, column.constant]
            found, axes = read_at(array, (row,), space)
        elif (turn := _iteration_index(lookup.subscripts, array, space)) is not None:
            found, axes = lax.dynamic_index_in_dim(jnp.asarray(array), turn, 0, False), ()
        else:
            found, axes = read_at(jnp.asarray(array), lookup.subscripts, space)
        if isinstance(type_, IndexArray) and type_.below is not None:
            space.below[lookup.name] = type_.below
        if lookup.relation in values.turns:
            space.turns[lookup.name] = values.turns[lookup.relation]
        space.entries[lookup.name] = found.astype(jnp.int32), axes


def _iteration_index(subscripts: Sequence[Affine], array: Any, space: Space) -> Any:
    """Return the place that the iteration alone decides, if it lies in a one-dimensional array in every iteration; else None."""
    if len(subscripts) != 1 or len(array.shape) != 1:
        return None
    (a,) = subscripts
    if not a.names or not a.names <= space.turns.keys():
        return None
    low, high = a.value_range(space.turns)
    return space.index(a)[0] if low >= 0 and high < array.shape[0] else None
