"""What steps compute with: the arrays made so far, and the data of relations."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax.numpy as jnp

from ..types import ParameterType, Relation, TupleSet
from .reading import Space, read
from .steps import Lookup


@dataclass
class Values:
    """`arguments` are the real parameters, as nested pairs; `data` the relations by name."""

    dtype: Any
    arguments: Mapping[str, Any]
    data: Mapping[str, tuple[ParameterType, Any]]
    arrays: dict[str, Any] = field(default_factory=dict)

    def relation(self, name: str) -> tuple[ParameterType, Any]:
        """A relation's type and data; one that a step made is a boolean array."""
        return self.data[name] if name in self.data else (Relation(()), self.arrays[name])


def entries(lookups: Sequence[Lookup], space: Space, values: Values) -> None:
    """Look up the entries of index arrays that a space's indices use."""
    for lookup in lookups:
        type_, array = values.relation(lookup.relation)
        if isinstance(type_, TupleSet):
            row, column = lookup.places
            array = jnp.asarray(array)[:, column.constant]
            found, axes = read(array, (row,), space)
        else:
            found, axes = read(jnp.asarray(array), lookup.places, space)
        space.entries[lookup.name] = found.astype(jnp.int32), axes
