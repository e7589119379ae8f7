"""What steps read, and what follows from it for the arrays that are read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..language.affine import Affine
from ..ssa.program import Output, flat
from .ir import Access, Contract, Entrywise, Fill, IndexLookup, Load, Step, Take


def used_lookups(lookups: Sequence[IndexLookup], names: Iterable[str]) -> tuple[IndexLookup, ...]:
    """The lookups among these names, and those that their subscripts use."""
    needed = set(names)
    kept: list[IndexLookup] = []
    for lookup in reversed(lookups):
        if lookup.name in needed:
            kept.insert(0, lookup)
            needed |= names_of(lookup.subscripts)
    return tuple(kept)


def names_of(indices: Iterable[Affine]) -> frozenset[str]:
    """The names in some index expressions."""
    return frozenset[str]().union(*(a.names for a in indices))


def axes_of(indices: Iterable[Affine], lookups: Sequence[IndexLookup]) -> frozenset[str]:
    """The axes that index expressions run over, through the subscripts of the lookups that they
    use.
    """
    names = names_of(indices)
    through = used_lookups(lookups, names)
    return (names | names_of(a for x in through for a in x.subscripts)) - {x.name for x in through}


def needed_steps(steps: Sequence[Step], output: Output) -> tuple[Step, ...]:
    """The steps that the output needs."""
    needed = set(flat(output))
    kept = []
    for step in reversed(steps):
        if step.name in needed:
            kept.append(step)
            needed |= step.needs
    return tuple(reversed(kept))


def unsummed_reads(step: Step) -> tuple[Access, ...]:
    """The reads of a step that sums nothing, which XLA fuses."""
    action = step.action
    return () if isinstance(action, Contract) and action.sums else action.accesses


def fusion_barriers(steps: Sequence[Step]) -> frozenset[str]:
    """The arrays to compute before what reads them: what entrywise steps read in more than two ways,
    as stencils of stencils do, and what sums read that shifted or looked-up entries make. XLA
    for CPUs would compute the former anew for each read, and the latter one by one.
    """
    ways: dict[str, set[object]] = {}
    mixed: set[str] = set()
    found: set[str] = set()
    for step in steps:
        action = step.action
        if not isinstance(action, Entrywise):
            continue
        here = tuple(map(Affine.of, action.axes))
        for read in unsummed_reads(step):
            ways.setdefault(read.array, set()).add((read.indices, here))
            if read.array in mixed or (read.indices and read.indices != here):
                mixed.add(step.name)
        if action.summed:
            found |= action.sources & mixed
    loaded = {step.name for step in steps if isinstance(step.action, Load | Fill | Take)}
    return frozenset(found | {x for x, seen in ways.items() if len(seen) > 2} - loaded)


def read_both_ways(steps: Sequence[Step]) -> frozenset[str]:
    """The arrays that entrywise steps read straight and turned round, as `A + Aᵀ` does."""
    ways: dict[str, set[bool]] = {}
    for step in steps:
        if isinstance(step.action, Entrywise):
            axes = step.action.axes
            for read in unsummed_reads(step):
                order = [k for a in read.indices for k, i in enumerate(axes) if i in a.names]
                ways.setdefault(read.array, set()).add(order == sorted(order))
    return frozenset(x for x, seen in ways.items() if len(seen) > 1)
