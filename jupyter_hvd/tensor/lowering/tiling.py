"""Big pairwise intermediates, a block of rows at a time.

Where arrays of n×n pairs are made only to be summed, as in n-body energies, no one needs them whole.
The steps that make and read them run once for each block of their first axis: results that are summed
over it are added up, results along it are laid side by side.

A sum over the first axis of what has long rows runs row by row, with what is fused into it: XLA for CPUs goes down the
columns, which takes up to a hundred times as long. A product of a matrix that is stored and a vector is left to XLA.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from ..language.affine import Affine
from ..language.predicates import (
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
from ..language.terms import Binder, Binders
from ..ssa.program import Output, flatten_output
from .dataflow import find_single_reads, fused_producers, names_of
from .device import Device
from .ir import OFFSET, Access, Contract, Entrywise, IndexLookup, Reduce, Rewriting, Step
from .strategy import is_running

# An intermediate of `Device.intermediate` entries and more is made in blocks where it has many times those of any argument, as
# arrays of all pairs have: a CPU fetches such memory from the system in each call. XLA fuses more of what is as large as an
# argument.
PAIRS = 4  # so many times
HUGE = 16  # and so many times as large as that, whatever the arguments are
LONG = 1 << 14  # entries of a row from which on rows are added one after the other
MANY = 16  # and so many of them


@dataclass(frozen=True)
class PlacedResult:
    """A result to which a block adds entries, beginning at a position that the offsets determine."""

    name: str
    starts: tuple[Affine, ...]
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Blocks:
    """Steps that run for each `rows` rows out of `extent`; their indices use the offset β.

    Of the results that others read, `added` are summed over the blocks, and `joined` have one axis
    (its position is given) along which the blocks follow each other. With `windows`, they run for each entry of
    windows of these extents, whose place the offsets β0, β1, … say, and the results are `placed`.
    """

    steps: tuple[Step, ...]
    extent: int
    rows: int
    added: tuple[str, ...]
    joined: tuple[tuple[str, int], ...]
    windows: tuple[int, ...] = ()
    placed: tuple[PlacedResult, ...] = ()

    @property
    def count(self) -> int:
        """The number of blocks."""
        return -(-self.extent // self.rows)


def block_steps(
    steps: Sequence[Step],
    output: Output,
    given: Mapping[str, tuple[int, ...]],
    device: Device,
) -> tuple[Step | Blocks, ...]:
    """Return the steps, with those around big intermediates gathered into blocks. `given` are the shapes of loaded arrays."""
    kept = set(flatten_output(output))
    shapes = {s.name: _entrywise_shape(s, device) for s in steps if s.name not in kept}
    loaded = max(map(prod, given.values()), default=0)
    big = {x: n for x, n in shapes.items() if len(n) > 1 and _is_big(prod(n), loaded, device)}
    once = find_single_reads(steps)
    for step in reversed(steps):
        if step.name in big and step.name in once and once[step.name] not in big:
            del big[step.name]
    for extent in sorted({shape[0] for shape in big.values()}, reverse=True):
        region = {name for name, shape in big.items() if shape[0] == extent}
        found = _region_around(steps, region, extent, device)
        if found is not None:
            return found
    return tuple(steps)


def _is_big(entries: int, loaded: int, device: Device) -> bool:
    """Whether an intermediate has so many entries that it is made in blocks."""
    return entries >= device.intermediate * (1 if entries > PAIRS * loaded else HUGE)


def _entrywise_shape(step: Step, device: Device) -> tuple[int, ...]:
    """Return the shape of an array that is made entry by entry; () for others."""
    action = step.action
    return action.shape if isinstance(action, Entrywise) and not _is_whole(action, device) else ()


def _is_whole(action: Entrywise, device: Device) -> bool:
    """Whether an array cannot be made row by row: by a scatter, or of sums that continue from row to row."""
    return isinstance(action, Contract) and (bool(action.scatter_to) or is_running(action, device))


def _region_around(
    steps: Sequence[Step], region: set[str], extent: int, device: Device
) -> tuple[Step | Blocks, ...] | None:
    """Return the steps with one region in blocks, after removing arrays that cannot be in it; None if none remain."""
    while region:
        wrong: set[str] = set()
        for step in steps:
            touched = step.needs & region
            axis = _axis_along(step, region, extent, device)
            inside = step.name in region
            if touched and (axis != _first_axis(step) if inside else axis is None):
                wrong |= touched
        wrong |= _late_arrays(steps, region)
        if not wrong:
            break
        region = region - wrong
    if not region:
        return None
    return _assemble_region(steps, region, extent, device)


def _first_axis(step: Step) -> str:
    """Return the first axis of a step's result."""
    assert isinstance(step.action, Entrywise)
    return step.action.axes[0]


def _axis_along(step: Step, region: set[str], extent: int, device: Device) -> str | None:
    """Return the axis of a step that runs along the first axis of all arrays of the region, and as far; None if there is none."""
    action = step.action
    if not isinstance(action, Entrywise) or _is_whole(action, device):
        return None
    reads = [r for r in action.accesses if r.array in region]
    if not reads:
        return action.axes[0] if step.name in region else None
    firsts = {r.indices[0].name for r in reads}
    if len(firsts) != 1 or None in firsts or action.relations & region:
        return None
    (axis,) = firsts
    assert axis is not None
    if isinstance(action, Reduce) and axis not in action.axes:
        return None
    elsewhere = (a.names for r in reads for a in r.indices[1:])
    if action.extents.get(axis) != extent or any(axis in names for names in elsewhere):
        return None
    return axis


def _late_arrays(steps: Sequence[Step], region: set[str]) -> set[str]:
    """Return the arrays of the region that wait for results of the region."""
    after: set[str] = set()  # outside the region, and dependent on it
    late: set[str] = set()
    for step in steps:
        if step.name in region:
            if step.needs & after:
                late.add(step.name)
        elif step.needs & (region | after):
            after.add(step.name)
    return late


def _assemble_region(
    steps: Sequence[Step], region: set[str], extent: int, device: Device
) -> tuple[Step | Blocks, ...] | None:
    """Return the steps before a region, its blocks, and the steps after it; None if a sum in it needs another one's result."""
    ends = {s.name for s in steps if s.name not in region and s.action.sources & region}
    inside: list[tuple[Step, str]] = []
    added, joined = [], []
    before: list[Step | Blocks] = []
    after: list[Step] = []
    waiting: set[str] = set()
    for step in steps:
        if step.name in region or step.name in ends:
            if step.needs & waiting:
                return None  # what sums the pairs needs another such sum first
            axis = _axis_along(step, region, extent, device)
            assert axis is not None
            assert isinstance(step.action, Entrywise)
            if step.name in ends:
                axes = step.action.axes
                if axis in axes:
                    joined.append((step.name, axes.index(axis)))
                else:
                    added.append(step.name)
                waiting.add(step.name)
            inside.append((step, axis))
        elif step.needs & waiting:
            waiting.add(step.name)
            after.append(step)
        else:
            before.append(step)
    entries = {s.name: prod(_entrywise_shape(s, device)) for s, _ in inside}
    if sum(entries[x] for x in region) <= sum(entries[x] for x, _ in joined):
        return None  # what comes out of it is no smaller
    widest = max(prod(_entrywise_shape(s, device)) // extent for s, _ in inside if s.name in region)
    down = any(entries[x] >= LONG for x in added)  # a block of one row has no columns to add up
    rows = 1 if down else max(1, min(extent, device.block // widest))
    made = tuple(strip_mine(s, axis, region, rows, extent) for s, axis in inside)
    blocks = Blocks(made, extent, rows, tuple(added), tuple(joined))
    return (*before, blocks, *after)


def block_row_sums(
    order: Sequence[Step | Blocks], output: Output, barriers: Collection[str], device: Device
) -> tuple[Step | Blocks, ...]:
    """Return the steps, with each sum of long rows computed row by row as a block, together with what is fused into it.

    Steps that nothing outside of these blocks reads any more are left out.
    """
    plain = [part for part in order if isinstance(part, Step)]
    found = [
        _block_row_sums(part, plain, barriers, device) or part if isinstance(part, Step) else part
        for part in order
    ]
    if found == [*order]:
        return tuple(order)
    needed, kept = set(flatten_output(output)), list[Step | Blocks]()
    for part in reversed(found):
        steps = (part,) if isinstance(part, Step) else part.steps
        if any(s.name in needed for s in steps):
            kept.append(part)
            needed = needed.union(*(s.needs for s in steps))
    return tuple(reversed(kept))


def _block_row_sums(
    step: Step, steps: Sequence[Step], barriers: Collection[str], device: Device
) -> Blocks | None:
    """Return a step that sums over the first axis of what it reads in blocks; None for others, or for short rows."""
    action = step.action
    if not isinstance(action, Contract) or len(action.sums) != 1 or action.scatter_to:
        return None
    ((axis, _),) = action.sums
    extent = action.extents[axis]
    if prod(action.shape) < LONG or extent < MANY or action.lookups:
        return None
    if not any(_is_down(r, axis, action) for r in action.reads):
        return None
    domain = prod(action.extents.values())
    shapes = {s.name: _entrywise_shape(s, device) for s in steps}
    readers = Counter(x for s in steps for x in s.needs)
    behind = fused_producers(steps, step.name, frozenset(x for x in barriers if readers[x] > 1))
    region = {s.name for s in behind if 2 * prod(shapes[s.name]) > domain}
    inside = [s for s in steps if s.name in region]
    while True:
        wrong = set[str]()
        for s in (*inside, step):
            along = axis if s is step else _first_axis(s)
            assert isinstance(s.action, Entrywise)
            for r in s.action.accesses:
                first = r.indices[0].name if r.indices else None
                more = any(along in a.names for a in r.indices[1:])
                if r.array in region and (first != along or more):
                    wrong.add(r.array)
            if s is not step and s.action.extents[along] != extent:
                wrong.add(s.name)
        if not wrong:
            break
        region -= wrong
        inside = [s for s in inside if s.name in region]
    if not region and _is_matrix_vector(action, axis):
        return None
    names = {x: f"{x}′" for x in region}

    def block_access(r: Access) -> Access:
        return Access(names.get(r.array, r.array), r.indices)

    made = []
    for s in (*inside, step):
        along = axis if s is step else _first_axis(s)
        mined = strip_mine(s, along, region, 1)
        assert isinstance(mined.action, Entrywise)
        renamed = mined.action.rewritten(Rewriting(block_access, lambda p: p, lambda x: x))
        made.append(replace(s, name=names.get(s.name, s.name), action=renamed))
    return Blocks(tuple(made), extent, 1, (step.name,), ())


def _is_matrix_vector(action: Contract, axis: str) -> bool:
    """Whether a sum is a product of a matrix and a vector, for which XLA has a routine that reads the matrix row by row."""
    return any(names_of(read.indices) == {axis} for read in action.reads)


def _is_down(read: Access, axis: str, action: Contract) -> bool:
    """Whether an array is read down its first axis, all of its other axes kept, and more than half of what is summed."""
    names = [a.name for a in read.indices]
    if len(names) < 2 or names[0] != axis or None in names[1:]:
        return False
    return 2 * prod(action.extents[i] for i in names if i) > prod(action.extents.values())


def strip_mine(
    step: Step,
    axis: str,
    here: Collection[str],
    rows: int,
    extent: int | None = None,
    offset: str = OFFSET,
) -> Step:
    """Return a step on `rows` rows of one axis, from the offset on.

    Arrays and relations in `here` have these rows only, the others all of them. If the rows may go beyond `extent`, sums leave
    those out.
    """
    action = step.action
    assert isinstance(action, Entrywise)
    at = {axis: Affine.of(axis) + Affine.of(offset)}
    whole = Rewriting.substituting(at)

    def cut_access(r: Access) -> Access:
        return r if r.array in here else whole.access(r)

    def cut_lookup(x: IndexLookup) -> IndexLookup:
        return x if x.relation in here else whole.lookup(x)

    def cut_mask(p: Predicate) -> Predicate:
        match p:
            case And(parts):
                return conj(*map(cut_mask, parts))
            case Or(parts):
                return disj(*map(cut_mask, parts))
            case Related(relation, _) if relation in here:
                return p
            case Exists(index, size, body):
                return Exists(index, size, cut_mask(body))
        return substitute(p, at)

    def cut_binders(binders: Binders) -> Binders:
        return tuple(Binder(i, Affine.of(rows) if i == axis else n) for i, n in binders)

    made = action.rewritten(Rewriting(cut_access, cut_mask, cut_lookup))
    if isinstance(made, Contract):
        if extent is not None and axis in dict(made.sums):  # the last block has rows too many
            made = replace(made, mask=conj(made.mask, compare("<", at[axis], extent)))
        places = tuple(
            (a, rows) if a.name == axis else (a.substitute(at), n) for a, n in made.scatter_to
        )
        made = replace(made, sums=cut_binders(made.sums), scatter_to=places)
    return replace(step, action=replace(made, out=cut_binders(made.out)))
