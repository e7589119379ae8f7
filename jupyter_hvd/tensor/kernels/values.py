"""What steps compute with: the arrays made so far, and the data of relations."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..types import ParameterType, Relation, TupleSet
from .blocks import OFFSET
from .reading import Aligned, Space, align, read
from .steps import Lookup

FENCED = 1 << 16  # entries below which computing some twice costs nothing


@dataclass
class Values:
    """`arguments` are the real parameters, as nested pairs; `data` the relations by name.

    `offset` is the first row of the block that runs. `whole` says that XLA is to see the program
    without fences, to divide it among devices.
    """

    dtype: Any
    arguments: Mapping[str, Any]
    data: Mapping[str, tuple[ParameterType, Any]]
    arrays: dict[str, Any] = field(default_factory=dict)
    whole: bool = False
    offset: Any = None

    def relation(self, name: str) -> tuple[ParameterType, Any]:
        """A relation's type and data; one that a step made is a boolean array."""
        return self.data[name] if name in self.data else (Relation(()), self.arrays[name])


def fence(array: Any, values: Values, change: Callable[[Any], Any] = lambda x: x) -> Any:
    """`change(array)`, computed before what reads it and once.

    XLA for CPUs computes an entry anew for each shifted or transposed read that it fuses, behind a
    branch for each padding: a stencil of a stencil runs thirty times slower than two stencils. It
    fuses nothing across a conditional, and does not see that this one's condition is always true.
    """
    leaves = [x for x in jax.tree_util.tree_leaves(values.arguments) if jnp.size(x)]
    if array.size < FENCED or values.whole or not leaves or jax.default_backend() != "cpu":
        return change(array)
    first = jnp.asarray(leaves[0]).ravel()[0]  # of an argument: it is there already
    always = (first == first) | (first != first)
    return lax.cond(always, change, lambda x: jnp.zeros_like(change(x)), array)


def turned(value: Aligned, space: Space, values: Values) -> Aligned:
    """What was read, its axes in the order of the space. Turning them round is fenced: XLA
    transposes fast, and slowly in the midst of something else.
    """
    array, axes = value
    order = tuple(n for n in space.extents if n in axes)
    if axes == order:
        return value
    return fence(array, values, lambda x: align((x, axes), order)), order


def entries(lookups: Sequence[Lookup], space: Space, values: Values) -> None:
    """Look up the entries of index arrays that a space's indices use, and the block's offset."""
    if values.offset is not None:
        space.entries[OFFSET] = values.offset, ()
    for lookup in lookups:
        type_, array = values.relation(lookup.relation)
        if isinstance(type_, TupleSet):
            row, column = lookup.places
            array = jnp.asarray(array)[:, column.constant]
            found, axes = read(array, (row,), space)
        else:
            found, axes = read(jnp.asarray(array), lookup.places, space)
        space.entries[lookup.name] = found.astype(jnp.int32), axes
