"""Big pairwise intermediates, a block of rows at a time.

Where arrays of n×n pairs are made only to be summed, as in n-body energies, no one needs them whole.
The steps that make and read them run once for each block of their first axis: results that are summed
over it are added up, results along it are laid side by side.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from ..language.affine import Affine
from ..language.predicates import (
    NOT,
    And,
    Exists,
    Or,
    Predicate,
    Related,
    compare,
    conj,
    disj,
    substitute,
)
from ..language.terms import Binders
from ..ssa.program import Output, flat
from .dataflow import relations, sources
from .ir import Apply, Lookup, Masked, Product, Read, Step, Total

BIG = 1 << 23  # entries of an intermediate from which on it is made in blocks
BLOCK = 1 << 20  # entries of the largest intermediate in one block
OFFSET = "β"  # the first row of the block, in indices

Entrywise = Product | Total | Apply


@dataclass(frozen=True)
class Blocks:
    """Steps that run for each `rows` rows out of `extent`; their indices use the offset β.

    Of the results that others read, `added` are summed over the blocks, and `joined` have one axis
    (its position is given) along which the blocks follow each other.
    """

    steps: tuple[Step, ...]
    extent: int
    rows: int
    added: tuple[str, ...]
    joined: tuple[tuple[str, int], ...]


def blocked(steps: Sequence[Step], output: Output) -> tuple[Step | Blocks, ...]:
    """The steps, those around big intermediates gathered into blocks."""
    kept = set(flat(output))
    big = {s.name: s for s in steps if s.name not in kept and _size(s) >= BIG}
    extents = {_binders(s)[0][1].constant for s in big.values()}
    for extent in sorted(extents, reverse=True):
        region = {x for x, s in big.items() if _binders(s)[0][1].constant == extent}
        found = _around(steps, region, extent)
        if found is not None:
            return found
    return tuple(steps)


def _size(step: Step) -> int:
    action = step.action
    if not isinstance(action, Entrywise) or not action.out:
        return 0
    if isinstance(action, Product) and action.targets:
        return 0
    return prod(n.constant for _, n in action.out)


def _binders(step: Step) -> Binders:
    assert isinstance(step.action, Entrywise)
    return step.action.out


def reads(step: Step) -> list[Read]:
    """What an action reads, entry by entry."""
    match step.action:
        case Product():
            return list(step.action.reads)
        case Total(_, addends):
            return [a.read for a in addends]
        case Apply():
            return [a.read for argument in step.action.arguments for a in argument]
    return []


def _around(
    steps: Sequence[Step], region: set[str], extent: int
) -> tuple[Step | Blocks, ...] | None:
    while region:
        axes = {s.name: _binders(s)[0][0] for s in steps if s.name in region}
        wrong: set[str] = set()
        for step in steps:
            touched = {r.array for r in reads(step)} & region
            touched |= (sources(step.action) | relations(step.action)) & region
            if not touched or (
                step.name in region and _first(step, region, extent) == axes[step.name]
            ):
                continue
            if step.name in region or _first(step, region, extent) is None:
                wrong |= touched
        wrong |= _late(steps, region)
        if not wrong:
            break
        region = region - wrong
    if not region:
        return None
    return _assembled(steps, region, extent)


def _first(step: Step, region: set[str], extent: int) -> str | None:
    """The axis of a step that runs along the first one of all arrays of the region, and as far;
    None where there is none such.
    """
    action = step.action
    if not isinstance(action, Entrywise) or (isinstance(action, Product) and action.targets):
        return None
    if not {r.array for r in reads(step)} & region:
        return action.out[0][0] if step.name in region else None
    firsts = {r.indices[0].name for r in reads(step) if r.array in region}
    if len(firsts) != 1 or None in firsts or relations(action) & region:
        return None
    (axis,) = firsts
    assert axis is not None
    inside = dict(action.out) | (dict(action.sums) if isinstance(action, Product) else {})
    elsewhere = (a.names for r in reads(step) if r.array in region for a in r.indices[1:])
    if inside.get(axis) != Affine.of(extent) or any(axis in names for names in elsewhere):
        return None
    return axis


def _late(steps: Sequence[Step], region: set[str]) -> set[str]:
    """Arrays of the region that wait for results of the region."""
    after: set[str] = set()  # outside the region, and dependent on it
    late: set[str] = set()
    for step in steps:
        needs = sources(step.action) | relations(step.action)
        if step.name in region:
            if needs & after:
                late.add(step.name)
        elif needs & (region | after):
            after.add(step.name)
    return late


def _assembled(
    steps: Sequence[Step], region: set[str], extent: int
) -> tuple[Step | Blocks, ...] | None:
    users = [s for s in steps if s.name not in region and {r.array for r in reads(s)} & region]
    ends = {s.name for s in users}
    inside: list[Step] = []
    added, joined = [], []
    before: list[Step | Blocks] = []
    after: list[Step] = []
    waiting: set[str] = set()
    for step in steps:
        needs = sources(step.action) | relations(step.action)
        if step.name in region or step.name in ends:
            if needs & waiting:
                return None  # what sums the pairs needs another such sum first
            axis = _first(step, region, extent)
            assert axis is not None
            if step.name in ends:
                kept = [i for i, _ in _binders(step)]
                if axis in kept:
                    joined.append((step.name, kept.index(axis)))
                else:
                    added.append(step.name)
                waiting.add(step.name)
            inside.append(step)
        elif needs & waiting:
            waiting.add(step.name)
            after.append(step)
        else:
            before.append(step)
    widest = max(_size(s) // extent for s in inside if s.name in region)
    rows = max(1, min(extent, BLOCK // widest))
    made = tuple(local(s, str(_first(s, region, extent)), region, rows, extent) for s in inside)
    blocks = Blocks(made, extent, rows, tuple(added), tuple(joined))
    return (*before, blocks, *after)


def local(
    step: Step, axis: str, here: Collection[str], rows: int, extent: int | None = None
) -> Step:
    """A step on `rows` rows of one axis, those from the offset on.

    Arrays and relations in `here` have these rows only, the others all of them. Where the rows may
    go beyond `extent`, sums leave those out.
    """
    at = {axis: Affine.of(axis) + Affine.of(OFFSET)}

    def settled(p: Predicate) -> Predicate:
        match p:
            case And(parts):
                return conj(*map(settled, parts))
            case Or(parts):
                return disj(*map(settled, parts))
            case Related(relation, _) if relation.removeprefix(NOT) in here:
                return p
            case Exists(index, size, body):
                return Exists(index, size, settled(body))
        return substitute(p, at)

    def cut(binders: Binders) -> Binders:
        return tuple((i, Affine.of(rows) if i == axis else n) for i, n in binders)

    def moved(indices: Iterable[Affine]) -> tuple[Affine, ...]:
        return tuple(a.substitute(at) for a in indices)

    def read(r: Read) -> Read:
        return r if r.array in here else Read(r.array, moved(r.indices))

    def look(lookups: tuple[Lookup, ...]) -> tuple[Lookup, ...]:
        return tuple(
            x if x.relation in here else Lookup(x.name, x.relation, moved(x.places))
            for x in lookups
        )

    def masked(m: Masked) -> Masked:
        return Masked(read(m.read), settled(m.mask), look(m.lookups))

    action: Any = step.action
    match action:
        case Product():
            mask = settled(action.mask)
            if extent is not None and axis in [
                i for i, _ in action.sums
            ]:  # the last block has rows too many
                mask = conj(mask, compare("<", at[axis], extent))
            action = replace(
                action,
                out=cut(action.out),
                sums=cut(action.sums),
                reads=tuple(map(read, action.reads)),
                mask=mask,
                lookups=look(action.lookups),
                targets=tuple(
                    (a, rows) if a.name == axis else (a.substitute(at), n)
                    for a, n in action.targets
                ),
            )
        case Total():
            action = replace(
                action, out=cut(action.out), addends=tuple(map(masked, action.addends))
            )
        case Apply():
            action = replace(
                action,
                out=cut(action.out),
                arguments=tuple(tuple(map(masked, x)) for x in action.arguments),
                mask=settled(action.mask),
                lookups=look(action.lookups),
            )
    return replace(step, action=action)
