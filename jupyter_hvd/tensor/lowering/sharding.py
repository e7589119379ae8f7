"""Sums over one index divided among devices.

Every device has its share of the parameters' rows along that index, as many as every other, and all of the rest. Rows
beyond the last are zero, and no step computes any. What is made along the index stays where it is; where it is read some
rows further on (`x[k+1]`), each device gets these rows from its neighbours, its halo. What is summed over the index is a partial
sum on each device. Partial sums go through additions and products with what all devices have; before anything else reads them,
and at the end, they are added up over the devices. Those at the end go in one all-reduce.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from ..language.affine import Affine
from ..language.errors import TensorError
from ..language.predicates import (
    Exists,
    Or,
    Predicate,
    Related,
    compare,
    conj,
    conjuncts,
    fresh,
    solve,
)
from ..language.terms import At, Binder, Gen, Guard, Proj, Sum, Term, Var
from .ir import Access, Accumulate, Apply, Contract, Entrywise, Load, Masked, Rewriting, Step
from .plan import Plan
from .tiling import strip_mine

Axis = tuple[str, tuple[int, ...], int]  # a parameter, a path of projections, an axis
Halo = tuple[int, int]  # how many rows before its own a device reads, and how many behind them


@dataclass(frozen=True)
class Shards:
    """The steps of a plan for one device, `rows` values of the index each.

    `local` gives the axis that is divided of each array that is, `partial` the arrays that are
    partial sums; `early` those to be added up as soon as they are made. `halos` says how many rows before and behind its own a
    device reads of an array: with them around it, it is known as `with_halo(name)`.
    """

    steps: tuple[Step, ...]
    local: Mapping[str, int]
    partial: frozenset[str]
    early: frozenset[str]
    halos: Mapping[str, Halo]
    rows: int


def with_halo(array: str) -> str:
    """What an array is called with its neighbours' rows around it."""
    return f"{array}⇆"


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
        if isinstance(part, At) and _shifted(part.index) == index:
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

    Raises TensorError where an array is read across shares, other than some rows further on (`x[k+1]`).
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
    whole = plan.shapes(whole=True)
    along: dict[str, int] = {}
    partial: set[str] = set()
    needed = set(early)
    pending: list[tuple[Step, str | None]] = []
    for step in plan.steps:
        action = step.action
        if isinstance(action, Load) and (action.parameter, action.path) in given:
            along[step.name] = given[action.parameter, action.path]
            extents.add(whole[step.name][along[step.name]])
        step = _along_axes(step, along, whole)
        action = step.action
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
    if not extents:
        raise TensorError(
            "this index has no range of values that could be divided",
            "shard the index of a sum over the data, `x[k]`",
        )
    rows = max(1, -(-max(extents) // devices))
    halos = _halos([step for step, axis in pending if axis is not None], along)
    here = {*along, *map(with_halo, halos), *data}
    steps = []
    for step, axis in pending:
        if axis is not None:
            whole_range = rows * devices == step.action.extents[axis]  # type: ignore[attr-defined]
            inside = step if whole_range else _within(step, axis)
            step = strip_mine(_around(inside, along, halos), axis, here, rows)
        steps.append(step)
    local = along | {with_halo(x): along[x] for x in halos}
    return Shards(tuple(steps), local, frozenset(partial), frozenset(needed), halos, rows)


def _shifted(index: Affine) -> str | None:
    """The name in `k + c`, for a number c."""
    return (index - index.constant).name


def _along_axes(
    step: Step, along: Mapping[str, int], shapes: Mapping[str, tuple[int, ...]]
) -> Step:
    """A row that is read where an axis has one value, `[k=0]·x[0]` at the ends of a stencil, is read along that axis; a row
    alone is `Σ k. [k=0]·x[k]`, a partial sum of the device that has it.
    """
    action = step.action
    if not isinstance(action, Entrywise):
        return step
    others = {
        name
        for r in action.accesses
        if r.array in along
        for name in r.indices[along[r.array]].names
    }

    def access(r: Access, mask: Predicate) -> Access:
        if r.array not in along or not (index := r.indices[along[r.array]]).is_constant:
            return r
        at = {
            name: value.constant
            for name in action.extents
            for p in conjuncts(mask)
            if (value := solve(p, name)) is not None and value.is_constant
        }
        name = next((x for x in sorted(at, key=lambda x: x not in others)), None)
        if name is None:
            return r
        there = Affine.of(name) + (index.constant - at[name])
        return Access(
            r.array,
            tuple(there if k == along[r.array] else a for k, a in enumerate(r.indices)),
        )

    def masked(m: Masked, mask: Predicate) -> Masked:
        return replace(m, read=access(m.read, conj(mask, m.mask)))

    match action:
        case Contract():
            reads = tuple(access(r, action.mask) for r in action.reads)
            return replace(step, action=_one_row(replace(action, reads=reads), along, shapes))
        case Accumulate():
            addends = tuple(masked(m, conj()) for m in action.addends)
            return replace(step, action=replace(action, addends=addends))
        case Apply():
            arguments = tuple(
                tuple(masked(m, action.mask) for m in argument) for argument in action.arguments
            )
            return replace(step, action=replace(action, arguments=arguments))
    return step


def _one_row(
    action: Contract, along: Mapping[str, int], shapes: Mapping[str, tuple[int, ...]]
) -> Contract:
    """What is read of a divided array at one row, read along a sum that is this row alone."""
    local = [r for r in action.reads if r.array in along]
    rows = {r.indices[along[r.array]] for r in local}
    if len(rows) != 1 or not next(iter(rows)).is_constant:
        return action
    (row,), axis = rows, fresh("k", {*action.extents, *(x.name for x in action.lookups)})
    extent = min(shapes[r.array][along[r.array]] for r in local)
    reads = tuple(
        Access(r.array, tuple(Affine.of(axis) if j == along[r.array] else a for j, a in enumerate(r.indices)))
        if r.array in along
        else r
        for r in action.reads
    )  # fmt: skip
    return replace(
        action,
        sums=(*action.sums, Binder(axis, Affine.of(extent))),
        reads=reads,
        mask=conj(action.mask, compare("=", axis, row)),
    )


def _halos(steps: Sequence[Step], along: Mapping[str, int]) -> dict[str, Halo]:
    """How far steps read beyond a device's own rows, of each array of which they do."""
    found: dict[str, Halo] = {}
    for r in (r for step in steps for r in step.action.accesses if r.array in along):
        shift = r.indices[along[r.array]].constant
        if shift:
            before, behind = found.get(r.array, (0, 0))
            found[r.array] = max(before, -shift), max(behind, shift)
    return found


def _around(step: Step, along: Mapping[str, int], halos: Mapping[str, Halo]) -> Step:
    """What is read some rows further on is read with the rows around it."""

    def access(r: Access) -> Access:
        if r.array not in halos or not r.indices[along[r.array]].constant:
            return r
        axis, (before, _) = along[r.array], halos[r.array]
        indices = [a + before if k == axis else a for k, a in enumerate(r.indices)]
        return Access(with_halo(r.array), tuple(indices))

    assert isinstance(step.action, Entrywise)
    change = Rewriting(access, lambda p: p, lambda x: x)
    return replace(step, action=step.action.rewritten(change))


def _within(step: Step, axis: str) -> Step:
    """A step that makes nothing beyond the last row."""
    action = step.action
    assert isinstance(action, Entrywise)
    inside = compare("<", Affine.of(axis), action.extents[axis])

    def masked(m: Masked) -> Masked:
        return replace(m, mask=conj(m.mask, inside))

    match action:
        case Contract() | Apply():
            return replace(step, action=replace(action, mask=conj(action.mask, inside)))
        case Accumulate():
            addends = tuple(map(masked, action.addends))
            return replace(step, action=replace(action, addends=addends))
    raise TypeError(action)


def _axis(step: Step, arrays: Mapping[str, int], data: Mapping[str, int]) -> str | None:
    """The axis of a step along the divided one of what it reads; None where it reads none such."""
    action = step.action
    found: set[str | None] = set()
    for r in action.accesses:
        if r.array in arrays:
            found.add(_shifted(r.indices[arrays[r.array]]))
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
            "shard an index that every array is read at directly or some rows further on, `x[k]`, `x[k+1]`",
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
