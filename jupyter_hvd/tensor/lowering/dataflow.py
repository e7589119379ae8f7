"""What steps read, and what follows from it for the arrays that are read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..language.affine import Affine
from ..language.predicates import Predicate
from ..ssa.program import Output, flat
from .ir import Action, Apply, Fill, Load, Lookup, Masked, Read, Step, Test, Total
from .ir import Product as ProductStep


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


def used_lookups(lookups: Sequence[Lookup], users: Sequence[object]) -> tuple[Lookup, ...]:
    """The lookups that are needed."""
    names: set[str] = set()
    for user in users:
        match user:
            case Affine() | Predicate():
                names |= user.names
            case Read(_, indices):
                names = names.union(*(a.names for a in indices))
            case Masked(Read(_, indices), mask):
                names = names.union(mask.names, *(a.names for a in indices))
    kept: list[Lookup] = []
    for lookup in reversed(lookups):
        if lookup.name in names:
            kept.insert(0, lookup)
            names = names.union(*(a.names for a in lookup.places))
    return tuple(kept)


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


def entrywise(step: Step) -> list[Read]:
    """The reads of a step that sums nothing, which XLA fuses."""
    action = step.action
    if isinstance(action, ProductStep):
        return [] if action.sums else list(action.reads)
    return [a.read for a in _addends(action)] if isinstance(action, Total | Apply) else []


def axes(action: Action) -> tuple[str, ...]:
    """The axes of an entrywise action, in order."""
    assert isinstance(action, ProductStep | Total | Apply)
    return tuple(i for i, _ in action.out)


def fenced(steps: Sequence[Step]) -> frozenset[str]:
    """The arrays to compute before what reads them: what entrywise steps read in more than two ways,
    as stencils of stencils do, and what sums read that shifted or looked-up entries make. XLA
    for CPUs would compute the former anew for each read, and the latter one by one.
    """
    ways: dict[str, set[Any]] = {}
    mixed: set[str] = set()
    found: set[str] = set()
    for step in steps:
        for read in entrywise(step):
            here = tuple(map(Affine.of, axes(step.action)))
            ways.setdefault(read.array, set()).add((read.indices, here))
            if read.array in mixed or (read.indices and read.indices != here):
                mixed.add(step.name)
        if isinstance(step.action, ProductStep) and step.action.sums:
            found |= {read.array for read in step.action.reads} & mixed
    loaded = {step.name for step in steps if isinstance(step.action, Load | Fill)}
    return frozenset(found | {x for x, seen in ways.items() if len(seen) > 2} - loaded)


def both_ways(steps: Sequence[Step]) -> frozenset[str]:
    """The arrays that entrywise steps read straight and turned round, as `A + Aᵀ` does."""
    ways: dict[str, set[bool]] = {}
    for step in steps:
        for read in entrywise(step):
            order = [
                k for a in read.indices for k, i in enumerate(axes(step.action)) if i in a.names
            ]
            ways.setdefault(read.array, set()).add(order == sorted(order))
    return frozenset(x for x, seen in ways.items() if len(seen) > 1)
