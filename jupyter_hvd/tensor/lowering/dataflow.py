"""Dataflow: what each step reads, and which arrays need fusion barriers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from math import prod

from ..derivative.elementary import CHEAP
from ..language.affine import Affine
from ..language.predicates import TRUE
from ..ssa.program import Output, flatten_output
from .concatenations import Chain, cut_sum, find_concatenations
from .ir import (
    Access,
    Accumulate,
    Action,
    Apply,
    Contract,
    Entrywise,
    IndexLookup,
    Step,
    Subscripts,
)

FENCED = 1 << 16  # entries below which computing some twice costs nothing
COSTLY = 1 << 12  # and below which functions of them, and sums entry by entry, cost nothing
CACHED = 1 << 19  # and from which to store them for that costs memory, and as much time
Way = tuple[Subscripts | Chain, Subscripts]  # what is read together, and the axes where it goes


def used_lookups(lookups: Sequence[IndexLookup], names: Iterable[str]) -> tuple[IndexLookup, ...]:
    """Return the lookups with these names, and those that their subscripts use."""
    needed = set(names)
    kept: list[IndexLookup] = []
    for lookup in reversed(lookups):
        if lookup.name in needed:
            kept.insert(0, lookup)
            needed |= names_of(lookup.subscripts)
    return tuple(kept)


def names_of(indices: Iterable[Affine]) -> frozenset[str]:
    """Return the names in index expressions."""
    return frozenset[str]().union(*(a.names for a in indices))


def axes_of(indices: Iterable[Affine], lookups: Sequence[IndexLookup]) -> frozenset[str]:
    """Return the axes that index expressions run over, also through the subscripts of lookups."""
    names = names_of(indices)
    through = used_lookups(lookups, names)
    return (names | names_of(a for x in through for a in x.subscripts)) - {x.name for x in through}


def needed_steps(steps: Sequence[Step], output: Output) -> tuple[Step, ...]:
    """Return the steps that the output needs."""
    needed = set(flatten_output(output))
    kept = []
    for step in reversed(steps):
        if step.name in needed:
            kept.append(step)
            needed |= step.needs
    return tuple(reversed(kept))


def unsummed_reads(step: Step) -> tuple[Access, ...]:
    """Return the reads of a step that sums nothing, which XLA fuses; () for other steps."""
    action = step.action
    return () if isinstance(action, Entrywise) and action.summed else action.accesses


def fusion_barriers(steps: Sequence[Step]) -> frozenset[str]:
    """Return the arrays to compute before what reads them, if they are not small.

    - Arrays that entrywise steps read in more than two patterns, as stencils of stencils do: XLA for CPUs would compute them
    again for each read.
    - Arrays of shifted or looked-up entries that sums read: they would be computed entry by entry, not in vectors.
    - Arrays with exponentials, roots and the like that are read beyond their ends, as shifted terms of a sum are: each entry
    would be behind a branch; and what several such arrays have in common.
    - What is looked up for one of these and for others.

    Repeating the entries of an array with fewer dimensions does not count as shifting.
    """
    large = {s.name for s in steps if _count_entries(s) >= FENCED}
    often, for_sums = _read_often(steps)
    found = frozenset(
        often & large | {s.name for s in steps if _count_entries(s) >= COSTLY} & for_sums
    )
    found |= _shared_lookups(steps, found) & large
    large = {s.name for s in steps if COSTLY <= _count_entries(s) < CACHED}
    costly = find_costly_arrays(steps, found)
    beyond = _behind_branches(steps, frozenset(costly & large))
    return found | beyond | _shared_arrays(steps, costly & large, found, beyond)


def _shared_arrays(
    steps: Sequence[Step],
    costly: AbstractSet[str],
    found: AbstractSet[str],
    beyond: AbstractSet[str],
) -> AbstractSet[str]:
    """Return the costly arrays that more than one array behind a barrier would compute for itself.

    Each is behind a barrier of its own, so that what it is made of is computed for it only.
    """
    shared = set[str]()
    within: dict[str, set[str]] = {}  # the arrays behind barriers whose kernels compute an array
    for step in reversed(steps):
        action, name = step.action, step.name
        own = within.pop(name, set[str]())
        if not isinstance(action, Entrywise) or action.summed or is_scatter(action):
            own = set()
        if name in costly and len(own) > 1:
            shared.add(name)
        if name in beyond or name in shared:
            own = {name}
        elif name in found:
            own = set()
        for source in action.sources:
            within.setdefault(source, set()).update(own)
    return shared - found - beyond


def _count_entries(step: Step) -> int:
    """Return how many entries a step makes; 0 for one that XLA does not fuse, or that scatters."""
    action = step.action
    fused = isinstance(action, Entrywise) and not is_scatter(action)
    return prod(action.shape) if fused and isinstance(action, Entrywise) else 0


def _read_often(steps: Sequence[Step]) -> tuple[set[str], set[str]]:
    """Return the arrays that are read in more than two patterns, and those of shifted or looked-up entries that sums read."""
    ways: dict[str, set[Way]] = {}
    mixed: set[str] = set()
    for_sums: set[str] = set()
    shapes = _array_shapes(steps)
    for step in steps:
        action = step.action
        if not isinstance(action, Entrywise):
            continue
        axes = action.axes
        here = tuple(map(Affine.of, axes))
        for array, way in _access_patterns(step, shapes):
            ways.setdefault(array, set()).add((way, here))
        for read in unsummed_reads(step):
            repeated = len(names_of(read.indices)) < len(axes)
            if (read.array in mixed and not repeated) or _is_permuted_copy(read.indices, axes):
                mixed.add(step.name)
        if action.summed:
            for_sums |= action.sources & mixed
    return {x for x, seen in ways.items() if _count_patterns(list(seen)) > 2}, for_sums


def find_single_reads(steps: Sequence[Step]) -> dict[str, str]:
    """Return the arrays each of whose entries is read once, by one step that does not sum, with that step: they are stored
    only if that step's array is.
    """
    ways: dict[str, set[Way]] = {}
    readers: dict[str, set[str]] = {}
    for step in steps:
        summed = not isinstance(step.action, Entrywise) or bool(step.action.summed)
        for x in step.needs:
            readers.setdefault(x, set()).update((step.name, "") if summed else (step.name,))
        here = tuple(map(Affine.of, step.action.axes)) if isinstance(step.action, Entrywise) else ()
        for read in step.action.accesses:
            ways.setdefault(read.array, set()).add((read.indices, here))
    single = ((x, min(found)) for x, found in readers.items() if len(found) == 1)
    return {x: reader for x, reader in single if _count_patterns([*ways.get(x, ())], 0) <= 1}


def _count_patterns(ways: Sequence[Way], few: int = 2) -> int:
    """Return in how many patterns at most one entry is read. Columns with constant numbers are read once each; up to `few`
    patterns all count.
    """
    if len(ways) <= few:
        return len(ways)
    return max(sum(not _reads_are_disjoint(one, other) for other in ways) for one in ways)


def _reads_are_disjoint(one: Way, other: Way) -> bool:
    """Whether two reads have no entry in common, by the constants among their indices."""
    (first, _), (second, _) = one, other
    return (
        isinstance(first, tuple)
        and isinstance(second, tuple)
        and any(
            a.is_constant and b.is_constant and a != b for a, b in zip(first, second, strict=True)
        )
    )


def _shared_lookups(steps: Sequence[Step], barriers: frozenset[str]) -> set[str]:
    """Return what is looked up for arrays behind barriers and for others: it would be looked up twice."""
    found: set[str] = set()
    for x in barriers:
        behind = fused_producers(steps, x, barriers)
        own = {x, *(s.name for s in behind)}
        others = [s.action for s in steps if s.name not in own]
        found |= {
            s.name
            for s in behind
            if isinstance(s.action, Entrywise)
            and any(not names_of(read.indices) <= {*s.action.axes} for read in s.action.accesses)
            and any(s.name in action.sources for action in others)
        }
    return found


def _access_patterns(
    step: Step, shapes: Mapping[str, Sequence[int]]
) -> Iterator[tuple[str, Subscripts | Chain]]:
    """Yield the patterns in which a step that sums nothing reads arrays; of a chain's parts, one is computed for each entry."""
    action = step.action
    if not isinstance(action, Accumulate):
        yield from ((read.array, read.indices) for read in unsummed_reads(step))
        return
    for found in find_concatenations(action.addends, action.extents, shapes, action.parted):
        if isinstance(found, Chain):
            yield from found.reads_in_order()
        else:
            yield found.read.array, found.read.indices


def mark_parted_sums(steps: Sequence[Step]) -> tuple[Step, ...]:
    """Return the steps, with those sums marked `parted` in which a branch for each entry would be expensive.

    That is so if an addend counts only at an end of the axis, so that XLA's loop cannot be vectorized, or reads results of
    slow functions.
    """
    costly = find_costly_arrays(steps, frozenset(), CHEAP | {"sqrt"})
    shapes = _array_shapes(steps)
    found = []
    for step in steps:
        action = step.action
        if isinstance(action, Accumulate):
            chain = cut_sum(action.addends, action.extents, shapes)
            if chain is not None and (chain.has_ends or action.sources & costly):
                action = replace(action, parted=True)
        found.append(replace(step, action=action))
    return tuple(found)


def find_costly_arrays(
    steps: Sequence[Step], barriers: frozenset[str], cheap: frozenset[str] = CHEAP
) -> set[str]:
    """Return the arrays for which XLA calls slow functions, entry by entry."""
    found: set[str] = set()
    for step in steps:
        action = step.action
        if not isinstance(action, Entrywise) or action.summed or is_scatter(action):
            continue
        calls = isinstance(action, Apply) and action.function.name not in cheap
        if calls or (action.sources & found) - barriers:
            found.add(step.name)
    return found


@dataclass(frozen=True)
class Remade:
    """Arrays that some steps compute again, and which `readers` read them so."""

    steps: tuple[Step, ...]
    readers: frozenset[str]

    def producers_behind(self, reader: Step, again: AbstractSet[str]) -> tuple[Step, ...]:
        """Return the steps that make what a reader reads, except arrays that exist already."""
        needed, found = {*reader.action.sources}, list[Step]()
        for step in reversed(self.steps):
            if step.name in needed - again:
                found.append(step)
                needed |= step.action.sources
        return tuple(reversed(found))


def find_recomputed(steps: Sequence[Step], stored: frozenset[str]) -> Remade:
    """Find arrays that repeat smaller ones with a few cheap operations, `x[i] - x[j]`, and are read for a sum and for what
    depends on it.

    XLA would store them in between, although computing them again costs nothing.
    """
    made: dict[str, Step] = {}
    large: set[str] = set()
    summed: set[str] = set()
    behind: set[str] = set()
    readers: set[str] = set()
    for step in steps:
        action, read = step.action, step.action.sources
        if read & (summed | behind):
            behind.add(step.name)
            if read & made.keys() and isinstance(action, Entrywise):
                readers.add(step.name)
        elif isinstance(action, Entrywise) and action.summed:
            if read & made.keys():
                summed.add(step.name)
        elif (
            step.name not in stored
            and _is_cheap(action)
            and not read & (large - made.keys())
            and (read & made.keys() or _repeats_entries(action))
        ):
            made[step.name] = step
        if isinstance(action, Entrywise) and prod(action.shape) >= FENCED:
            large.add(step.name)
    wanted = {x for s in steps if s.name in readers for x in s.action.sources & made.keys()}
    chain = []
    for step in reversed([*made.values()]):
        if step.name in wanted:
            chain.append(step)
            wanted |= step.action.sources & made.keys()
    return Remade(tuple(reversed(chain)), frozenset(readers))


def _is_cheap(action: Action) -> bool:
    """Whether it moves and repeats entries, adds and multiplies them, in large arrays."""
    if not isinstance(action, Entrywise) or action.summed or action.indirections:
        return False
    if prod(action.shape) < FENCED or any(p != TRUE for p in action.conditions):
        return False
    return not isinstance(action, Apply) or action.function.name in CHEAP


def _repeats_entries(action: Action) -> bool:
    """Whether all that it reads has fewer dimensions."""
    assert isinstance(action, Entrywise)
    return all(len(names_of(read.indices)) < len(action.axes) for read in action.accesses)


def fused_producers(steps: Sequence[Step], name: str, barriers: frozenset[str]) -> tuple[Step, ...]:
    """Return the entrywise steps behind an array, up to arrays in memory: what XLA fuses into it."""
    needed = {name}
    found: list[Step] = []
    for step in reversed(steps):
        action = step.action
        if step.name not in needed:
            continue
        if step.name != name:
            plain = isinstance(action, Entrywise) and not action.summed
            if not plain or step.name in barriers or is_scatter(action):
                continue
            found.append(step)
        needed |= action.sources
    return tuple(reversed(found))


def _array_shapes(steps: Sequence[Step]) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the arrays that entrywise steps make."""
    return {s.name: s.action.shape for s in steps if isinstance(s.action, Entrywise)}


def is_scatter(action: Action) -> bool:
    """Whether terms add up at places that data, or several axes, give."""
    return isinstance(action, Contract) and bool(action.scatter_to)


def find_read_margins(
    steps: Sequence[Step], arrays: frozenset[str]
) -> dict[str, tuple[tuple[int, int], ...]]:
    """Return how far entrywise steps read beyond each end of each dimension of some arrays."""
    found: dict[str, tuple[tuple[int, int], ...]] = {}
    shapes = _array_shapes(steps)
    for step in steps:
        action = step.action
        if not isinstance(action, Entrywise):
            continue
        for read, extents in _reads_where(step, shapes):
            shape = shapes.get(read.array)  # what blocks make has no margins
            if shape and read.array in arrays and names_of(read.indices) <= extents.keys():
                before = found.get(read.array, ((0, 0),) * len(shape))
                reached = (a.value_range(extents) for a in read.indices)
                found[read.array] = tuple(
                    (max(b, -low), max(e, high - n + 1))
                    for (b, e), (low, high), n in zip(before, reached, shape, strict=True)
                )
    return {x: ends for x, ends in found.items() if any(b or e for b, e in ends)}


def _behind_branches(steps: Sequence[Step], arrays: frozenset[str]) -> frozenset[str]:
    """Return those of some arrays that XLA computes behind a branch for each entry: read beyond their ends, or a part of an
    axis beside other addends.
    """
    shapes = _array_shapes(steps)
    found = {*find_read_margins(steps, arrays)}
    for action in (s.action for s in steps):
        if isinstance(action, Accumulate):
            addends = find_concatenations(action.addends, action.extents, shapes, action.parted)
            if len(addends) > 1:
                chains = (x for x in addends if isinstance(x, Chain))
                found |= {m.read.array for x in chains for p in x.parts for m in p.addends}
    return frozenset(found & arrays)


def _reads_where(
    step: Step, shapes: Mapping[str, Sequence[int]]
) -> Iterator[tuple[Access, Mapping[str, int]]]:
    """Yield the reads of a step that sums nothing, with the extents over which each is read."""
    action = step.action
    if not isinstance(action, Accumulate):
        assert isinstance(action, Entrywise)
        yield from ((read, action.extents) for read in unsummed_reads(step))
        return
    for found in find_concatenations(action.addends, action.extents, shapes, action.parted):
        if isinstance(found, Chain):
            for part in found.parts:
                at = {found.axis: Affine.of(found.axis) + part.start}
                extents = {**action.extents, found.axis: part.stop - part.start}
                yield from ((m.read.substitute(at), extents) for m in part.addends)
        else:
            yield found.read, action.extents


def _is_permuted_copy(indices: Sequence[Affine], axes: Sequence[str]) -> bool:
    """Whether entries are read at other places than they go to, as many as there are."""
    if any(not a.names <= {*axes} for a in indices):
        return True
    return len(indices) == len(axes) and indices != tuple(map(Affine.of, axes))


def find_transposed_reads(steps: Sequence[Step]) -> frozenset[str]:
    """Return the arrays that entrywise steps read both straight and transposed, as `A + Aᵀ` does."""
    ways: dict[str, set[bool]] = {}
    for step in steps:
        if isinstance(step.action, Entrywise):
            axes = step.action.axes
            for read in unsummed_reads(step):
                order = [k for a in read.indices for k, i in enumerate(axes) if i in a.names]
                ways.setdefault(read.array, set()).add(order == sorted(order))
    return frozenset(x for x, seen in ways.items() if len(seen) > 1)
