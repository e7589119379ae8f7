"""Slopes by the values of functions: of `y = sqrt(x)` it is `1/2·recip(y)`.

XLA for CPUs takes a root that only a reciprocal reads for one operation, the reciprocal root. So where a root is read for its
value and for its slope, all that it is taken of would be computed for each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..derivative.blackboxes import BY_VALUE
from ..language.affine import Affine
from ..language.function import Function, Partial
from .ir import Access, Apply, Masked, Step


def by_value(steps: Sequence[Step]) -> tuple[Step, ...]:
    """The same arrays, slopes computed from the values of the function where these are there, too."""
    made: dict[tuple[Any, ...], str] = {}
    found = []
    for step in steps:
        action = step.action
        if isinstance(action, Apply):
            function = _sloping(action.function)
            value = made.get(_key(action, function.name)) if function else None
            if function and value:
                at = Access(value, tuple(Affine.of(i) for i in action.axes))
                slope = BY_VALUE[function.name]
                action = replace(action, function=slope, arguments=((Masked(at),),))
            else:
                made.setdefault(_key(action, action.function.name), step.name)
        found.append(replace(step, action=action))
    return tuple(found)


def _sloping(function: Function) -> Function | None:
    """The function that has this slope, if its values say it."""
    match function.derivation:
        case (base, Partial(0)) if base.name in BY_VALUE:
            return base
    return None


def _key(action: Apply, name: str) -> tuple[Any, ...]:
    return name, action.out, action.arguments, action.mask, action.lookups
