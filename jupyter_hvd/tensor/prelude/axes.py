"""Axes and sizes, of which definitions know how many there are when they are called."""

from __future__ import annotations

import math
from typing import Any


def axes_of(x: Any, axis: Any) -> tuple[int, ...]:
    """The axes that `axis` names, from 0 on and in order; all where it is None."""
    if axis is None:
        return tuple(range(x.ndim))
    named = axis if isinstance(axis, tuple | list) else (axis,)
    for k in named:
        if not -x.ndim <= k < x.ndim:
            raise ValueError(f"axis {k} is out of bounds for array of dimension {x.ndim}")
    return tuple(sorted(k % x.ndim for k in named))


def count_of(x: Any, axis: Any) -> Any:
    """How many entries there are along axes."""
    return math.prod(x.shape[k] for k in axes_of(x, axis))


def along(axis: int, *places: Any) -> tuple[Any, ...]:
    """Places along an axis, all of those before it."""
    return (*[slice(None)] * axis, *places)
