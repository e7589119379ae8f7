"""What steps read, and what follows from it for the arrays that are read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from ..ssa import Output, flat
from ..terms import Binders
from .steps import Action, Apply, Fill, Load, Masked, Read, Step, Test, Total
from .steps import Product as ProductStep


def sources(action: Action) -> set[str]:
    """The arrays that an action reads."""
    match action:
        case ProductStep():
            return {r.array for r in action.reads}
        case Total() | Apply():
            return {a.read.array for a in _addends(action)}
        case Test(array):
            return {array}
    return set()


def relations(action: Action) -> set[str]:
    """The relations that an action consults."""
    if isinstance(action, Load | Fill | Test):
        return set()
    parts: list[Any] = [action] if not isinstance(action, Total) else []
    if not isinstance(action, ProductStep):
        parts += _addends(action)
    found = {x.relation for part in parts for x in part.lookups}
    return found.union(*({r.removeprefix("¬") for r in part.mask.relations} for part in parts))


def _addends(action: Total | Apply) -> list[Masked]:
    if isinstance(action, Total):
        return list(action.addends)
    return [a for argument in action.arguments for a in argument]


def live(steps: Sequence[Step], output: Output) -> tuple[Step, ...]:
    """The steps that the output needs."""
    needed = set(flat(output))
    kept = []
    for step in reversed(steps):
        if step.name in needed:
            kept.append(step)
            needed |= sources(step.action) | relations(step.action)
    return tuple(reversed(kept))


def entrywise(steps: Sequence[Step]) -> Iterator[tuple[Read, Binders]]:
    """The reads of steps that sum nothing, which XLA fuses, and the axes that they run over."""
    for step in steps:
        action = step.action
        if isinstance(action, ProductStep):
            if not action.sums:
                yield from ((read, action.out) for read in action.reads)
        elif isinstance(action, Total | Apply):
            yield from ((a.read, action.out) for a in _addends(action))


def shifted(steps: Sequence[Step]) -> frozenset[str]:
    """The arrays that entrywise steps read in more than two ways, as stencils do."""
    ways: dict[str, set[Any]] = {}
    loaded = {step.name for step in steps if isinstance(step.action, Load | Fill)}
    for read, out in entrywise(steps):
        ways.setdefault(read.array, set()).add((read.indices, out))
    return frozenset(x for x, seen in ways.items() if len(seen) > 2 and x not in loaded)


def both_ways(steps: Sequence[Step]) -> frozenset[str]:
    """The arrays that entrywise steps read straight and turned round, as `A + Aᵀ` does."""
    ways: dict[str, set[bool]] = {}
    for read, out in entrywise(steps):
        order = [k for a in read.indices for k, (i, _) in enumerate(out) if i in a.names]
        ways.setdefault(read.array, set()).add(order == sorted(order))
    return frozenset(x for x, seen in ways.items() if len(seen) > 1)
