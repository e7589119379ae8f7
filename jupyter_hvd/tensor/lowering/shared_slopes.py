"""Computes slopes from function values: the slope of `y = sqrt(x)` is `1/2·recip(y)`.

XLA for CPUs takes a root that only a reciprocal reads for one operation, the reciprocal root. So where a root is read for its
value and for its slope, all that it is taken of would be computed for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..derivative.primitives import BY_VALUE
from .ir import Apply, Masked, Step


def share_slopes(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Return the same arrays, with slopes computed from the function's values where these are available."""
    made: dict[tuple[Any, ...], str] = {}
    found = []
    for step in steps:
        action = step.action
        if isinstance(action, Apply):
            base = action.function.slope_of
            value = (
                made.get(_slope_key(action, base.name)) if base and base.name in BY_VALUE else None
            )
            if base and value:
                at = action.entry_of(value)
                slope = BY_VALUE[base.name]
                action = replace(action, function=slope, arguments=((Masked(at),),))
            else:
                made.setdefault(_slope_key(action, action.function.name), step.name)
        found.append(replace(step, action=action))
    return tuple(found)


def _slope_key(action: Apply, name: str) -> tuple[Any, ...]:
    """Return a key for an application of a function by name."""
    return name, action.out, action.arguments, action.mask, action.lookups
