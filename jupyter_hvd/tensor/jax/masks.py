"""Predicates as boolean arrays over the axes that they depend on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp

from ..language.affine import Affine
from ..language.predicates import Predicate
from ..language.types import IndexArray, ParameterType, Relation, TupleSet
from ..polyhedral.points import Aligned, Axes, Points
from .access import Space, align, read

Relations = Callable[[str], tuple[ParameterType, Any]]  # the type and the data of each


def make_mask(p: Predicate, space: Space, relations: Relations) -> Aligned:
    """Return where `p` holds as a boolean array, with its axes in the order of the space."""
    return _SpacePoints(space, relations).holds_at(p)


@dataclass(frozen=True)
class _SpacePoints(Points):
    """Evaluates predicates at all points of a space."""

    space: Space
    relations: Relations

    def affine_values(self, a: Affine) -> Aligned:
        """Return the values of an affine expression at the points."""
        return self.space.index(a)

    def add_axis(self, axis: str, extent: int) -> Points:
        """Return the points with one more axis, for a quantifier."""
        space = Space({**self.space.extents, axis: extent}, self.space.entries)
        return _SpacePoints(space, self.relations)

    def broadcast_together(self, values: Sequence[Aligned]) -> tuple[list[Any], Axes]:
        """Return arrays aligned to their common axes, and those axes."""
        axes = tuple(n for n in self.space.extents if any(n in has for _, has in values))
        return [align(value, axes) for value in values], axes

    def is_member(self, relation: str, arguments: tuple[Affine, ...]) -> Aligned:
        """Return whether tuples of indices are in a relation."""
        type_, array = self.relations(relation)
        if isinstance(type_, Relation):
            return read(array, arguments, self.space)
        columns, axes = self.broadcast_together([self.space.index(a) for a in arguments])
        if isinstance(type_, TupleSet):
            return _is_row(array, columns), axes
        assert isinstance(type_, IndexArray)
        inside: Any = align(read(array, arguments[:-1], self.space), axes) == columns[-1]
        for n, a, column in zip(array.shape, arguments, columns, strict=False):
            if not self.space.is_within(a, n):
                inside = inside & (column >= 0) & (column < n)
        return inside, axes


def find_row(rows: Any, indices: Sequence[Affine], space: Space) -> Aligned:
    """Return the positions of index tuples among sorted rows; the number of rows if there is none that begins with them."""
    points = _SpacePoints(space, lambda _: (TupleSet(len(indices)), rows))
    columns, axes = points.broadcast_together([space.index(a) for a in indices])
    low, same = _search_rows(rows, columns)
    return jnp.where(same, low, rows.shape[0]), axes


def _is_row(rows: Any, columns: list[Any]) -> Any:
    """Return whether index tuples are among the rows."""
    return _search_rows(rows, columns)[1]


def _search_rows(rows: Any, columns: list[Any]) -> tuple[Any, Any]:
    """Return by binary search where index tuples are among sorted rows, and whether they are."""
    count = rows.shape[0]
    shape = jnp.broadcast_shapes(*(column.shape for column in columns))
    if count == 0:
        return jnp.zeros(shape, jnp.int32), jnp.zeros(shape, bool)
    low: Any = jnp.zeros(shape, jnp.int32)
    high: Any = jnp.full(shape, count, jnp.int32)
    for _ in range(count.bit_length()):
        middle = (low + high) // 2
        row = rows[jnp.clip(middle, 0, count - 1)]
        less, same = jnp.zeros(shape, bool), jnp.ones(shape, bool)
        for k, column in enumerate(columns):
            less = less | (same & (row[..., k] < column))
            same = same & (row[..., k] == column)
        active = low < high
        low = jnp.where(active & less, middle + 1, low)
        high = jnp.where(active & ~less, middle, high)
    found = rows[jnp.clip(low, 0, count - 1)]
    same = low < count
    for k, column in enumerate(columns):
        same = same & (found[..., k] == column)
    return low, same
