"""Axes and sizes, of which definitions know how many there are when they are called."""

from __future__ import annotations

import math
from typing import Any


def named_axes(rank: int, axis: Any) -> tuple[int, ...]:
    """The axes that `axis` names, from 0 on."""
    named = axis if isinstance(axis, tuple | list) else (axis,)
    for k in named:
        if not -rank <= k < rank:
            raise ValueError(f"axis {k} is out of bounds for array of dimension {rank}")
    return tuple(k % rank for k in named)


def axes_of(rank: int, axis: Any) -> tuple[int, ...]:
    """The axes that `axis` names, in order; all where it is None."""
    return tuple(range(rank)) if axis is None else tuple(sorted(named_axes(rank, axis)))


def count_of(shape: tuple[Any, ...], axis: Any) -> Any:
    """How many entries there are along axes."""
    return math.prod(shape[k] for k in axes_of(len(shape), axis))


def along(axis: int, *places: Any) -> tuple[Any, ...]:
    """Places along an axis, all of those before it."""
    return (*[slice(None)] * axis, *places)
