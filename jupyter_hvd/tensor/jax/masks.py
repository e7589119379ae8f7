"""Predicates as boolean arrays over the axes that they depend on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from ..language.affine import Affine
from ..language.predicates import NOT, And, Compare, Exists, Or, Predicate, Related, substitute
from ..language.types import IndexArray, ParameterType, Relation, TupleSet
from .access import Aligned, Space, align, read

Data = Callable[[str], tuple[ParameterType, Any]]


def mask(p: Predicate, space: Space, data: Data) -> Aligned:
    """Where `p` holds; relations are false outside their arrays."""
    match p:
        case Compare(op, left, right):
            difference, axes = space.index(right - left)
            return {"<": difference > 0, "≤": difference >= 0, "=": difference == 0}[op], axes
        case Related(relation, arguments):
            inside, axes = _related(relation.removeprefix(NOT), arguments, space, data)
            return (~inside if relation.startswith(NOT) else inside), axes
        case And(parts) | Or(parts):
            values = [mask(part, space, data) for part in parts]
            axes = tuple(n for n in space.extents if any(n in has for _, has in values))
            result: Any = jnp.asarray(isinstance(p, And))
            for value in values:
                here = align(value, axes)
                result = result & here if isinstance(p, And) else result | here
            return result, axes
        case Exists(index, size, body):
            extent = size.constant
            inner = Space({**space.extents, "∃" + index: extent}, space.entries)
            inside, axes = mask(substitute(body, {index: Affine.of("∃" + index)}), inner, data)
            if "∃" + index not in axes:
                return inside & (extent > 0), axes
            return inside.any(axis=axes.index("∃" + index)), tuple(
                n for n in axes if n != "∃" + index
            )
    raise TypeError(p)


def _related(relation: str, arguments: tuple[Affine, ...], space: Space, data: Data) -> Aligned:
    type_, array = data(relation)
    if isinstance(type_, Relation):
        return read(array, arguments, space)
    values = [space.index(a) for a in arguments]
    axes = tuple(n for n in space.extents if any(n in has for _, has in values))
    columns = [align(value, axes) for value in values]
    if isinstance(type_, TupleSet):
        return _member(array, columns), axes
    assert isinstance(type_, IndexArray)
    inside: Any = align(read(array, arguments[:-1], space), axes) == columns[-1]
    for n, column in zip(array.shape, columns, strict=False):
        inside = inside & (column >= 0) & (column < n)
    return inside, axes


def _member(rows: Any, columns: list[Any]) -> Any:
    """Whether index tuples are among the rows, by binary search; rows are in order."""
    count = rows.shape[0]
    shape = jnp.broadcast_shapes(*(column.shape for column in columns))
    if count == 0:
        return jnp.zeros(shape, bool)
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
    return same
