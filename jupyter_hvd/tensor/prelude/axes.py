"""Axes and sizes, of which definitions know how many there are when they are called."""

from __future__ import annotations

import math
from typing import Any


def named_axes(rank: int, axis: Any) -> tuple[int, ...]:
    """Return the axes that `axis` names, as numbers from 0; ValueError if one does not exist."""
    named = axis if isinstance(axis, tuple | list) else (axis,)
    for k in named:
        if not -rank <= k < rank:
            raise ValueError(f"axis {k} is out of bounds for array of dimension {rank}")
    return tuple(k % rank for k in named)


def axes_of(rank: int, axis: Any) -> tuple[int, ...]:
    """Return the axes that `axis` names, sorted; all if it is None."""
    return tuple(range(rank)) if axis is None else tuple(sorted(named_axes(rank, axis)))


def count_of(shape: tuple[Any, ...], axis: Any) -> Any:
    """Return how many entries there are along axes."""
    return math.prod(shape[k] for k in axes_of(len(shape), axis))


def along(axis: int, *indices: Any) -> tuple[Any, ...]:
    """Return an index that applies `indices` along an axis, and `:` along those before it."""
    return (*[slice(None)] * axis, *indices)
