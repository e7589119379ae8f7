"""Sums over one index divided among devices.

Every device has its share of the parameters' rows along that index, and all of the rest. What is made
along the index stays where it is; what is summed over it is a partial sum on each device. Partial
sums go through additions and products with what all devices have; before anything else reads them,
and at the end, they are added up over the devices. Those at the end go in one all-reduce.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..language.errors import TensorError
from ..language.predicates import Exists, Or, Predicate, Related, conjuncts
from ..language.terms import At, Gen, Guard, Proj, Sum, Term, Var
from .ir import Accumulate, Contract, Entrywise, Load, Step
from .plan import Plan
from .tiling import strip_mine

Axis = tuple[str, tuple[int, ...], int]  # a parameter, a path of projections, an axis


@dataclass(frozen=True)
class Shards:
    """The steps of a plan for one device, `rows` values of the index each.

    `local` gives the axis that is divided of each array that is, `partial` the arrays that are
    partial sums; `early` those to be added up as soon as they are made.
    """

    steps: tuple[Step, ...]
    local: Mapping[str, int]
    partial: frozenset[str]
    early: frozenset[str]
    extent: int
    devices: int

    @property
    def rows(self) -> int:
        return self.extent // self.devices


def divided(body: Term, indices: Collection[str]) -> tuple[Axis, ...]:
    """The parameters' axes that are read at one of these indices of the program, and only at it."""
    found: dict[Axis, None] = {}
    for e in _subterms(body):
        if isinstance(e, Sum | Gen) and e.index in indices:
            found.update(dict.fromkeys(_axes(e.body, e.index)))
    return tuple(found)


def _subterms(e: Term) -> Iterator[Term]:
    yield e
    for child in e.children:
        yield from _subterms(child)


def _axes(e: Term, index: str) -> Iterator[Axis]:
    for part in _subterms(e):
        if isinstance(part, At) and part.index.name == index:
            owner: Term = part.body
            axis, path = 0, tuple[int, ...]()
            while isinstance(owner, At):
                owner, axis = owner.body, axis + 1
            while isinstance(owner, Proj):
                path, owner = (owner.side, *path), owner.body
            if isinstance(owner, Var):
                yield owner.name, path, axis
        if isinstance(part, Guard):
            for atom in _atoms(part.condition):
                for axis, a in enumerate(atom.arguments):
                    if a.name == index:
                        yield atom.relation, (), axis


def _atoms(p: Predicate) -> Iterator[Related]:
    if isinstance(p, Related):
        yield p
    elif isinstance(p, Exists):
        yield from _atoms(p.body)
    elif isinstance(p, Or) or conjuncts(p) != (p,):
        for part in p.parts if isinstance(p, Or) else conjuncts(p):
            yield from _atoms(part)


def shard(
    plan: Plan, axes: Sequence[Axis], shapes: Mapping[str, tuple[int, ...]], devices: int
) -> Shards:
    """Divide a plan. `shapes` has those of the relations' data, by name.

    Raises TensorError where an array is read across shares (`x[k+1]`) or they are not equal.
    """
    early: frozenset[str] = frozenset()
    while True:
        shards = _divided(plan, axes, shapes, devices, early)
        if shards.early == early:
            return shards
        early = shards.early


def _divided(
    plan: Plan,
    axes: Sequence[Axis],
    shapes: Mapping[str, tuple[int, ...]],
    devices: int,
    early: frozenset[str],
) -> Shards:
    """One pass over the steps; `early`: arrays to all-reduce at once. Those that turn out to need
    it are in the result's `early`.
    """
    given = {(x, path): axis for x, path, axis in axes}
    data = {x: axis for x, path, axis in axes if not path and x in shapes}
    extents = {shapes[x][axis] for x, axis in data.items()}
    along: dict[str, int] = {}
    partial: set[str] = set()
    needed = set(early)
    pending: list[tuple[Step, str | None]] = []
    for step in plan.steps:
        action = step.action
        if isinstance(action, Load) and (action.parameter, action.path) in given:
            along[step.name] = given[action.parameter, action.path]
        axis = _axis(step, along, data)
        if axis is not None and isinstance(action, Entrywise):
            extents.add(action.extents[axis])
            place = _place(action, axis)
            if place is not None:
                along[step.name] = place
            elif step.name not in early:
                partial.add(step.name)
        read = step.needs & partial
        if read and (axis is not None or not _linear(step, partial)):
            needed |= read
        elif read and step.name not in early:
            partial.add(step.name)
        pending.append((step, axis))
    if len(extents) != 1:
        raise TensorError(
            "this index has not one range of values that could be divided",
            "shard the index of a sum over the data, `x[k]`",
        )
    (extent,) = extents
    if extent % devices:
        raise TensorError(
            f"{devices} devices cannot share {extent} values of the index equally",
            f"pass `devices=`, a divisor of {extent}, or pad the data with values that count nothing",
        )
    here, rows = {*along, *data}, extent // devices
    steps = tuple(s if axis is None else strip_mine(s, axis, here, rows) for s, axis in pending)
    return Shards(steps, along, frozenset(partial), frozenset(needed), extent, devices)


def _axis(step: Step, arrays: Mapping[str, int], data: Mapping[str, int]) -> str | None:
    """The axis of a step along the divided one of what it reads; None where it reads none such."""
    action = step.action
    found: set[str | None] = set()
    for r in action.accesses:
        if r.array in arrays:
            found.add(r.indices[arrays[r.array]].name)
    for lookup in action.indirections:
        if lookup.relation in data:
            found.add(lookup.subscripts[data[lookup.relation]].name)
    for p in action.conditions:
        for atom in _atoms(p):
            name = atom.relation
            if name in data:
                found.add(atom.arguments[data[name]].name)
    if action.sources & arrays.keys() and not found:
        found.add(None)
    if len(found) > 1 or None in found:
        raise TensorError(
            "an array is read across the shares of this index",
            "shard an index that every array is read at directly, `x[k]`",
        )
    return next(iter(found), None)


def _place(action: Entrywise, axis: str) -> int | None:
    """Where the axis is in the result; None where it is summed."""
    scatter_to = action.scatter_to if isinstance(action, Contract) else ()
    if any(axis in a.names and a.name != axis for a, _ in scatter_to):
        raise TensorError(
            "a result has this index as a part of another one, `k·i + j`",
            "give the array an axis of its own for it",
        )
    names = [a.name for a, _ in scatter_to] or [*action.axes]
    return names.index(axis) if axis in names else None


def _linear(step: Step, partial: set[str]) -> bool:
    """Whether a step of partial sums is the partial sum of the step."""
    action = step.action
    if action.relations & partial:
        return False
    if isinstance(action, Accumulate):
        return True  # what all devices have is added on the first one only
    return isinstance(action, Contract) and sum(r.array in partial for r in action.reads) == 1
