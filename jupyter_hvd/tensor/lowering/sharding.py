"""Sums over one index, or several, sharded over devices.

Every device has its share of the parameters' rows along each such index, as many as every other, and all of the rest. Rows
beyond the last are zero, and no step computes any. What is made along the index stays where it is; where it is read some
rows further on (`x[k+1]`), each device gets these rows from its neighbours, its halo. What is summed over the index is a partial
sum on each device. Partial sums go through additions and products with what all devices have; before anything else reads them,
and at the end, they are added up over the devices. Those at the end go in one all-reduce.

Of two indices the devices are a grid, and each is divided as if it were the only one: an array may have a share of rows and one
of columns, or a share of rows that is a partial sum along the columns.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
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
from .ir import (
    OFFSET,
    Access,
    Accumulate,
    Apply,
    Contract,
    Entrywise,
    Load,
    MadeRelation,
    Masked,
    Reduce,
    Rewriting,
    Step,
    Whole,
)
from .plan import Plan
from .tiling import strip_mine

Axis = tuple[str, tuple[int, ...], int]  # a parameter, a path of projections, an axis
#: Indices, each with how many devices divide it, where that is said.
Along = tuple[tuple[str, int | None], ...]
Halo = tuple[int, int]  # how many rows before its own a device reads, and how many behind them


@dataclass(frozen=True)
class Division:
    """The parameters' axes to shard for one index, over how many devices, and the size of the longest axis."""

    axes: tuple[Axis, ...]
    devices: int
    extent: int = 0


@dataclass(frozen=True)
class Shares:
    """Of one index `rows` values for each of so many `devices`, which lie along `name`; a device's first value is called
    `offset`.

    `local` gives the axis that is divided of each array that is, `partial` the arrays that are
    partial sums; `early` those to be added up as soon as they are made. `halos` says how many rows before and behind its own a
    device reads of an array: with them around it, it is known as `with_halo(name)`.
    """

    local: Mapping[str, int]
    partial: frozenset[str]
    early: frozenset[str]
    halos: Mapping[str, Halo]
    rows: int
    devices: int
    name: str

    @property
    def offset(self) -> str:
        """The name of a device's first value of the index."""
        return f"{OFFSET}{self.name}"


@dataclass(frozen=True)
class Shards:
    """The steps of a plan for one device, and its shares of each index."""

    steps: tuple[Step, ...]
    shares: tuple[Shares, ...]


def with_halo(array: str) -> str:
    """Return the name of an array with its neighbours' rows around it."""
    return f"{array}⇆"


def divided_axes(body: Term, indices: Collection[str]) -> tuple[Axis, ...]:
    """Return the parameters' axes that are read at one of these indices of the program, and only at it."""
    found: dict[Axis, None] = {}
    for e in _walk_terms(body):
        if isinstance(e, Sum | Gen) and e.index in indices:
            found.update(dict.fromkeys(_axes_read_at(e.body, e.index)))
    return tuple(found)


def _walk_terms(e: Term) -> Iterator[Term]:
    """Yield a term and all terms in it."""
    yield e
    for child in e.children:
        yield from _walk_terms(child)


def _axes_read_at(e: Term, index: str) -> Iterator[Axis]:
    """Yield the parameters' axes that a term reads at an index."""
    for part in _walk_terms(e):
        if isinstance(part, At) and _shifted_name(part.index) == index:
            owner: Term = part.body
            axis, path = 0, tuple[int, ...]()
            while isinstance(owner, At):
                owner, axis = owner.body, axis + 1
            while isinstance(owner, Proj):
                path, owner = (owner.side, *path), owner.body
            if isinstance(owner, Var):
                yield owner.name, path, axis
        if isinstance(part, Guard):
            for atom in _atoms_of(part.condition):
                for axis, a in enumerate(atom.arguments):
                    if a.name == index:
                        yield atom.relation, (), axis


def _atoms_of(p: Predicate) -> Iterator[Related]:
    """Yield the relation atoms of a predicate."""
    if isinstance(p, Related):
        yield p
    elif isinstance(p, Exists):
        yield from _atoms_of(p.body)
    elif isinstance(p, Or) or conjuncts(p) != (p,):
        for part in p.parts if isinstance(p, Or) else conjuncts(p):
            yield from _atoms_of(part)


def shard_plan(
    plan: Plan, divisions: Sequence[Division], shapes: Mapping[str, tuple[int, ...]]
) -> Shards:
    """Shard a plan. `shapes` has the shapes of the relations' data, by name.

    Raises TensorError if an array is read across shards, other than some rows further on (`x[k+1]`).
    """
    early: tuple[frozenset[str], ...] = (frozenset(),) * len(divisions)
    while True:
        shards, needed = _divide_once(plan, divisions, shapes, early)
        if needed == early:
            return shards
        early = needed


class _Found:
    """What is known so far about the shards of one index; `early` are arrays to all-reduce at once."""

    def __init__(
        self, division: Division, shapes: Mapping[str, tuple[int, ...]], early: frozenset[str]
    ) -> None:
        axes = division.axes
        self.devices = division.devices
        self.given = {(x, path): axis for x, path, axis in axes}
        self.data = {x: axis for x, path, axis in axes if not path and x in shapes}
        self.extents = {division.extent, *(shapes[x][axis] for x, axis in self.data.items())}
        self.along: dict[str, int] = {}
        self.partial = set[str]()
        self.early, self.needed = early, set(early)
        self.added = set[str]()

    def note_sum(self, name: str) -> None:
        """Note a partial sum, or that it is added up."""
        (self.added if name in self.early else self.partial).add(name)

    def note_load(self, step: Step, shapes: Mapping[str, tuple[int, ...]]) -> None:
        """Record a parameter that is sharded."""
        action = step.action
        if isinstance(action, Load) and (action.parameter, action.path) in self.given:
            self.along[step.name] = self.given[action.parameter, action.path]
            self.extents.add(shapes[step.name][self.along[step.name]])

    def note_step(self, step: Step) -> str | None:
        """Return the axis along which a step is sharded, if any; record what it makes."""
        action = step.action
        if isinstance(action, MadeRelation) and action.array in self.along:
            self.data[step.name] = self.along[action.array]
            return None
        if isinstance(action, Whole) and action.sources & self.along.keys():
            self.along[step.name] = _batch_axis(action, self.along)
            return None
        axis = _divided_axis(step, self.along, self.data)
        if axis is not None and isinstance(action, Entrywise):
            self.extents.add(action.extents[axis])
            place = _result_axis(action, axis)
            if place is not None:
                self.along[step.name] = place
            else:
                self.note_sum(step.name)
        read = step.needs & self.partial
        if read and (axis is not None or not _is_linear(step, self.partial)):
            self.needed |= read
        elif read:
            self.note_sum(step.name)
        return axis

    def collect_shares(
        self, halos: Mapping[str, Halo], haloed: AbstractSet[str], name: str
    ) -> Shares:
        """Return the shares of this index; the arrays in `haloed` also exist with rows around them."""
        rows = max(1, -(-max(self.extents) // self.devices))
        local = self.along | {with_halo(x): self.along[x] for x in haloed & self.along.keys()}
        partial = frozenset(self.partial | {with_halo(x) for x in haloed & self.partial})
        added = frozenset(self.added)
        return Shares(local, partial, added, halos, rows, self.devices, name)


def _divide_once(
    plan: Plan,
    divisions: Sequence[Division],
    shapes: Mapping[str, tuple[int, ...]],
    early: Sequence[frozenset[str]],
) -> tuple[Shards, tuple[frozenset[str], ...]]:
    """Shard the steps, with partial sums in `early` all-reduced at once; also return those that need it."""
    found = [_Found(one, shapes, x) for one, x in zip(divisions, early, strict=True)]
    whole = plan.shapes(whole=True)
    pending: list[tuple[Step, list[str | None]]] = []
    for step in plan.steps:
        for one in found:
            one.note_load(step, whole)
            names = (_names_along(step, x.along) for x in found if x is not one)
            step = _along_axes(step, one.along, whole, frozenset[str]().union(*names))
        axes = [one.note_step(step) for one in found]
        if len({*axes} - {None}) < sum(axis is not None for axis in axes):
            raise read_across_shards_error()
        pending.append((step, axes))
    halos = [
        _halo_widths([step for step, axes in pending if axes[k] is not None], one.along)
        for k, one in enumerate(found)
    ]
    haloed = frozenset[str]().union(*halos)
    shares = [
        one.collect_shares(own, haloed, f"shards{k}")
        for k, (one, own) in enumerate(zip(found, halos, strict=True))
    ]
    steps = []
    for step, axes in pending:
        if any(axis is not None for axis in axes):
            step = _read_with_halo(step, shares)
        for axis, share, own in zip(axes, shares, found, strict=True):
            if axis is not None:
                whole_range = share.rows * share.devices == step.action.extents[axis]  # type: ignore[attr-defined]
                inside = step if whole_range else _cut_after_last(step, axis)
                here = share.local.keys() | own.data.keys()
                step = strip_mine(inside, axis, here, share.rows, offset=share.offset)
        steps.append(step)
    return Shards(tuple(steps), tuple(shares)), tuple(frozenset(one.needed) for one in found)


def _shifted_name(index: Affine) -> str | None:
    """Return the name in `k + c` for a number c; None for other indices."""
    return (index - index.constant).name


def _names_along(step: Step, along: Mapping[str, int]) -> frozenset[str]:
    """Return the names at which sharded axes are read."""
    found = (r.indices[along[r.array]].names for r in step.action.accesses if r.array in along)
    return frozenset[str]().union(*found)


def _along_axes(
    step: Step,
    along: Mapping[str, int],
    shapes: Mapping[str, tuple[int, ...]],
    taken: AbstractSet[str],
) -> Step:
    """Return a step in which a row that is read where an axis has one value, `[k=0]·x[0]` at the ends of a stencil, is read
    along that axis.

    Not if the axis is `taken`. A single row becomes `Σ k. [k=0]·x[k]`, a partial sum on the device that has it.
    """
    action = step.action
    if not isinstance(action, Entrywise):
        return step
    others = _names_along(step, along)

    def shard_access(r: Access, mask: Predicate) -> Access:
        if r.array not in along or not (index := r.indices[along[r.array]]).is_constant:
            return r
        at = {
            name: value.constant
            for name in action.extents
            if name not in taken
            for p in conjuncts(mask)
            if (value := solve(p, name)) is not None and value.is_constant
        }
        name = min(at, key=lambda x: x not in others, default=None)
        if name is None:
            return r
        there = Affine.of(name) + (index.constant - at[name])
        return Access(
            r.array,
            tuple(there if k == along[r.array] else a for k, a in enumerate(r.indices)),
        )

    def shard_masked(m: Masked, mask: Predicate) -> Masked:
        return replace(m, read=shard_access(m.read, conj(mask, m.mask)))

    match action:
        case Contract():
            reads = tuple(shard_access(r, action.mask) for r in action.reads)
            return replace(step, action=_read_one_row(replace(action, reads=reads), along, shapes))
        case Accumulate():
            addends = tuple(shard_masked(m, conj()) for m in action.addends)
            return replace(step, action=replace(action, addends=addends))
        case Apply():
            arguments = tuple(
                tuple(shard_masked(m, action.mask) for m in argument)
                for argument in action.arguments
            )
            return replace(step, action=replace(action, arguments=arguments))
    return step


def _read_one_row(
    action: Contract, along: Mapping[str, int], shapes: Mapping[str, tuple[int, ...]]
) -> Contract:
    """Return a contraction that reads one row of a sharded array as a sum over that row only."""
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


def _halo_widths(steps: Sequence[Step], along: Mapping[str, int]) -> dict[str, Halo]:
    """Return how far steps read beyond a device's own rows, by array."""
    found: dict[str, Halo] = {}
    for r in (r for step in steps for r in step.action.accesses if r.array in along):
        shift = r.indices[along[r.array]].constant
        if shift:
            before, behind = found.get(r.array, (0, 0))
            found[r.array] = max(before, -shift), max(behind, shift)
    return found


def _read_with_halo(step: Step, shares: Sequence[Shares]) -> Step:
    """Return a step that reads rows further on from the array with its neighbours' rows."""

    def shift_access(r: Access) -> Access:
        own = [one for one in shares if r.array in one.halos]
        if not any(r.indices[one.local[r.array]].constant for one in own):
            return r
        indices = [*r.indices]
        for one in own:
            indices[one.local[r.array]] += one.halos[r.array][0]
        return Access(with_halo(r.array), tuple(indices))

    assert isinstance(step.action, Entrywise)
    change = Rewriting(shift_access, lambda p: p, lambda x: x)
    return replace(step, action=step.action.rewritten(change))


def _cut_after_last(step: Step, axis: str) -> Step:
    """Return a step that makes nothing beyond the last row."""
    action = step.action
    assert isinstance(action, Entrywise)
    inside = compare("<", Affine.of(axis), action.extents[axis])

    def cut_masked(m: Masked) -> Masked:
        return replace(m, mask=conj(m.mask, inside))

    match action:
        case Contract() | Apply():
            return replace(step, action=replace(action, mask=conj(action.mask, inside)))
        case Accumulate():
            addends = tuple(map(cut_masked, action.addends))
            return replace(step, action=replace(action, addends=addends))
        case Reduce():  # whose rows beyond the last one nothing reads
            return step
    raise TypeError(action)


def _batch_axis(action: Whole, along: Mapping[str, int]) -> int:
    """Return the sharded axis of an array-level function: a batch axis of all operands that have one."""
    operands = zip(action.operands, action.dims, action.definition.ranks, strict=True)
    found = {
        along.get(x) if len(dims) > rank else -1
        for x, dims, rank in operands
        if x in along or len(dims) > rank
    }
    axis = found.pop() if len(found) == 1 else None
    if axis is None or not 0 <= axis < len(action.definition.batch_dimensions(action.dims)):
        raise read_across_shards_error()
    return axis


def _divided_axis(step: Step, arrays: Mapping[str, int], data: Mapping[str, int]) -> str | None:
    """Return the axis of a step along the sharded one of what it reads; None if it reads none."""
    action = step.action
    found: set[str | None] = set()
    for r in action.accesses:
        if r.array in arrays:
            found.add(_shifted_name(r.indices[arrays[r.array]]))
    for lookup in action.indirections:
        if lookup.relation in data:
            found.add(lookup.subscripts[data[lookup.relation]].name)
    for p in action.conditions:
        for atom in _atoms_of(p):
            name = atom.relation
            if name in data:
                found.add(atom.arguments[data[name]].name)
    if action.sources & arrays.keys() and not found:
        found.add(None)
    if len(found) > 1 or None in found:
        raise read_across_shards_error()
    return next(iter(found), None)


def read_across_shards_error() -> TensorError:
    """Return the error for an array that is read on a device where it does not lie."""
    return TensorError(
        "an array is read across the shares of this index",
        "shard an index that every array is read at directly or some rows further on, `x[k]`, `x[k+1]`",
    )


def _result_axis(action: Entrywise, axis: str) -> int | None:
    """Return the position of the axis in the result; None if it is summed."""
    scatter_to = action.scatter_to if isinstance(action, Contract) else ()
    if any(axis in a.names and a.name != axis for a, _ in scatter_to):
        raise TensorError(
            "a result has this index as a part of another one, `k·i + j`",
            "give the array an axis of its own for it",
        )
    if isinstance(action, Reduce) and axis not in action.axes:
        raise read_across_shards_error()
    names = [a.name for a, _ in scatter_to] or [*action.axes]
    return names.index(axis) if axis in names else None


def _is_linear(step: Step, partial: set[str]) -> bool:
    """Whether a step of partial sums is the partial sum of the step."""
    action = step.action
    if action.relations & partial:
        return False
    if isinstance(action, Accumulate):
        return True  # what all devices have is added on the first one only
    return isinstance(action, Contract) and sum(r.array in partial for r in action.reads) == 1
