"""A kernel before it runs: its steps, and the table that says how each array is made and stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from ..language.affine import Affine
from ..language.predicates import TRUE
from ..language.printer import show
from ..language.terms import Binders, index_names
from ..language.types import IndexArray, ParameterType
from ..language.units import in_bytes
from ..ssa.program import Output, flatten_output
from .choices import Choices
from .dataflow import (
    Remade,
    find_costly_arrays,
    find_read_margins,
    find_recomputed,
    fused_producers,
)
from .device import Device
from .ir import (
    Access,
    Accumulate,
    Action,
    Apply,
    Contract,
    Entrywise,
    Fill,
    IndexLookup,
    Load,
    MadeRelation,
    MakeIndexArray,
    Masked,
    Nonzero,
    Reduce,
    Rerun,
    Scan,
    Step,
    Take,
    Whole,
    extents_of,
)
from .relation_joins import Join
from .roofline import describe_time
from .storage import Storage
from .strategy import choose_kernel
from .tiling import Blocks

Row = tuple[str, str, str, str, str]
#: The number of tuples of relations that are given by them, and what all entries of an index array are below.
Counts = tuple[tuple[str, int], ...]
MOST = 1024  # entries of an array in a loop that is one kernel
MEAN = 256  # entries of such arrays: XLA makes better kernels of larger arrays, each by itself


@dataclass(frozen=True, eq=False)
class Plan:
    """The steps of a kernel and the arrays that it returns, as the program's output tree: for sizes,
    numbers of tuples, a type of numbers and a kind of device.

    Arrays in `barriers` are computed before anything reads them, those in `both_ways` are read
    straight and turned round. `order` has the steps around big intermediates gathered into blocks.
    `storages` says where the entries of pieces are. `str` is a table with a line an array.
    """

    parameters: tuple[tuple[str, ParameterType], ...]
    counts: Counts
    dtype: np.dtype[Any]
    device: Device
    steps: tuple[Step, ...]
    output: Output
    barriers: frozenset[str]
    both_ways: frozenset[str]
    order: tuple[Step | Blocks, ...]
    storages: Mapping[str, Storage]
    choices: Choices
    copied: tuple[str, ...] = ()  # arrays that loops copy in each iteration, and why

    @property
    def platform(self) -> str:
        """JAX's name for the kind of device."""
        return self.device.platform

    @property
    def windows(self) -> Device:
        """The device, with or without its kernels for windows (`strategy.choose_kernel`)."""
        return self.device if self.choices.windows else self.device.without_windows

    @property
    def sums_row_by_row(self) -> bool:
        """Whether a sum down long rows is in blocks of one row."""
        blocks = (part for part in self.order if isinstance(part, Blocks))
        return any(one.rows == 1 and not one.joined and not one.windows for one in blocks)

    @cached_property
    def has_small_loops(self) -> bool:
        """Whether the iterations of a loop compute few numbers, so that it may be one kernel (`jax/single_kernels`)."""
        bodies = [loop.body for s in self.steps for loop in s.action.loops]
        return any(are_few([prod(x) for x in body.shapes().values()]) for body in bodies)

    @cached_property
    def quotients(self) -> frozenset[str]:
        """The reciprocals that are read once, by a product."""
        steps = [part for part in self.order if isinstance(part, Step)]
        reads = Counter(r.array for s in steps for r in s.action.accesses)
        reads.update(flatten_output(self.output))
        reads.update(x for s in steps for loop in s.action.loops for x in loop.sources)
        return frozenset(
            s.name
            for s in steps
            if isinstance(s.action, Apply) and s.action.function.name == "recip"
            if s.action.mask == TRUE and reads[s.name] == 1
        )

    @cached_property
    def producers(self) -> Mapping[str, tuple[Step, ...]]:
        """The steps that XLA may fuse into each array in `barriers`."""
        run = [part for part in self.order if isinstance(part, Step)]
        return {x: fused_producers(run, x, self.barriers) for x in self.barriers}

    @cached_property
    def remade(self) -> Remade:
        """What is computed again for readers behind a sum of it."""
        run = [part for part in self.order if isinstance(part, Step)]
        return find_recomputed(run if self.choices.apart else (), self.barriers)

    @cached_property
    def margins(self) -> Mapping[str, tuple[tuple[int, int], ...]]:
        """The zeros around arrays in `barriers` that are read with them, if they are few.

        XLA writes them in the loop over entries, behind a branch for each: not around slow functions, which would not be
        vectorized.
        """
        run = [part for part in self.order if isinstance(part, Step)]
        shapes = self.shapes()
        found = find_read_margins(run, self.barriers - find_costly_arrays(run, self.barriers))
        return {
            x: ends
            for x, ends in found.items()
            if 2 * prod(n + b + e for n, (b, e) in zip(shapes[x], ends, strict=True))
            <= 3 * prod(shapes[x])
        }

    @cached_property
    def made(self) -> Mapping[str, IndexArray]:
        """The types of the index arrays that steps make."""
        found = ((s.name, s.action) for s in self.steps)
        return {x: IndexArray((), a.below) for x, a in found if isinstance(a, MakeIndexArray)}

    @cached_property
    def joins(self) -> tuple[Join, ...]:
        """The joins whose tables the steps read."""
        read = frozenset[str]().union(*(step.action.relations for step in self.steps))
        return tuple([x for x, _ in self.counts if isinstance(x, Join) and x in read])

    def shapes(self, *, whole: bool = False) -> dict[str, tuple[int, ...]]:
        """Return the shape of each array; for one made in blocks, that of a block, unless `whole`."""
        found: dict[str, tuple[int, ...]] = {}
        for step in self.steps if whole else _flat_steps(self.order):
            match step.action:
                case Entrywise() as action:
                    found[step.name] = action.shape
                case Fill(out, _) | Whole(out):
                    found[step.name] = extents_of(out)
                case MadeRelation(array):
                    found[step.name] = found[array]
                case Load() | Take():
                    found[step.name] = self.storages[step.name].extents
                case Scan() | Rerun():
                    found[step.name] = ()
        return found

    def result_bytes(self, step: Step, shapes: Mapping[str, tuple[int, ...]]) -> int:
        """Return the size of an array that XLA does not fuse into its readers."""
        width = 1 if isinstance(step.action, Nonzero) else self.dtype.itemsize
        return prod(shapes[step.name]) * width

    @cached_property
    def bound(self) -> int:
        """The bytes of all steps together without any fusion: of results, and of terms before they are summed."""
        shapes, total = self.shapes(), 0
        for step in _flat_steps(self.order):
            terms = prod(step.action.extents.values()) if isinstance(step.action, Entrywise) else 0
            total += max(terms * self.dtype.itemsize, self.result_bytes(step, shapes))
            total += sum(loop.body.bound for loop in step.action.loops)
        return total

    @cached_property
    def points(self) -> int:
        """The number of points that all steps visit, in all iterations."""
        total = 0
        for part in self.order:
            times = part.count if isinstance(part, Blocks) else 1
            for step in _flat_steps((part,)):
                here = step.action.extents if isinstance(step.action, Entrywise) else {"": 0}
                total += times * prod(here.values())
                total += sum(loop.count * loop.body.points for loop in step.action.loops)
        return total

    def describe_largest(self) -> str:
        """Return the name, the extents and the size of the largest array, in words."""
        shapes = self.shapes()
        step = max(_flat_steps(self.order), key=lambda s: self.result_bytes(s, shapes))
        extents = "×".join(map(str, shapes[step.name]))
        return f"{step.name} has {extents} entries, {in_bytes(self.result_bytes(step, shapes))}"

    def __str__(self) -> str:
        shapes = self.shapes()
        rows = [("array", "bytes", "stored as", "iterates over", "made by"), *self._table_rows()]
        widths = [max(len(row[k]) for row in rows) for k in range(4)]
        lines = [
            f"{row[0]:{widths[0]}}  {row[1]:>{widths[1]}}  {row[2]:{widths[2]}}  "
            f"{row[3]:{widths[3]}}  {row[4]}".rstrip()
            for row in rows
        ]
        total = sum(
            self.result_bytes(s, shapes) for s in _flat_steps(self.order) if not _is_load(s)
        )
        kinds, used = dict(self.parameters), {*self.joins}
        tuples = "".join(
            f"; {x}: {n} tuples"
            for x, n in self.counts
            if x in used or (not isinstance(x, Join) and not isinstance(kinds.get(x), IndexArray))
        )
        returned = ", ".join(dict.fromkeys(flatten_output(self.output)))
        if self.choices.dense:
            lines.insert(
                0,
                "computed by JAX's own derivative in dense arrays, found to be faster; where that does not fit:",
            )
        return "\n".join(
            (
                *lines,
                f"{self.dtype} on {self.platform}{tuples}; returns {returned}; "
                f"{in_bytes(total)} at most beside the arguments",
                describe_time(self),
                *self.copied,
            )
        )

    def _table_rows(self) -> Iterator[Row]:
        """Yield the rows of the plan's table."""
        shapes = self.shapes()
        for part in self.order:
            if isinstance(part, Blocks):
                yield "", "", "", _block_text(part), ""
            for step in part.steps if isinstance(part, Blocks) else (part,):
                yield self._table_row(step, shapes, isinstance(part, Blocks))
                for loop in step.action.loops:
                    turn: Plan = loop.body
                    yield from ((f"  {row[0]}", *row[1:]) for row in turn._table_rows())
                    yield "", "", "", "", f"carried on: {', '.join(flatten_output(turn.output))}"

    def _table_row(self, step: Step, shapes: Mapping[str, tuple[int, ...]], in_block: bool) -> Row:
        """Return a step's row in the plan's table."""
        shape, storage = shapes[step.name], self.storages.get(step.name)
        made = _operation_text(step.action, self.windows)
        if step.name in self.barriers and not in_block:
            made += " (not fused into what reads it)"
        return (
            step.name,
            "" if step.action.loops else in_bytes(self.result_bytes(step, shapes)),
            "" if step.action.loops else _storage_text(shape, storage),
            _domain_text(step.action),
            made,
        )


def are_few(entries: Sequence[int]) -> bool:
    """Whether arrays of so many entries are small enough for one kernel to make all of them."""
    return max(entries, default=0) <= MOST and sum(entries) <= MEAN * len(entries)


def _block_text(part: Blocks) -> str:
    if part.windows:
        return f"{part.count} times, for each β of a window of {'×'.join(map(str, part.windows))}:"
    return f"{part.count} times, {part.rows} rows of β at a time:"


def _flat_steps(order: Sequence[Step | Blocks]) -> Iterator[Step]:
    for part in order:
        yield from part.steps if isinstance(part, Blocks) else (part,)


def _is_load(step: Step) -> bool:
    return isinstance(step.action, Load)


def _storage_text(shape: Sequence[int], storage: Storage | None) -> str:
    """Return an array's extents, and the index map from the tensor's indices if it is not the identity."""
    extents = "×".join(map(str, shape)) or "scalar"
    if storage is None or storage.is_identity:
        return extents
    text = f"{extents} at [{_indices_text(storage.inverse)}]"
    return text if storage.lattice == TRUE else f"{text} where {show(storage.lattice)}"


def _domain_text(action: Action) -> str:
    """Return the points that a step visits."""
    if not isinstance(action, Entrywise):
        return ""
    text = _ranges_text(action.out)
    if action.summed:
        text = f"{text} Σ {_ranges_text(action.summed)}".strip()
    mask = action.mask if isinstance(action, Contract | Apply) else TRUE
    return text if mask == TRUE else f"{text} where {show(mask)}"


def _ranges_text(binders: Binders) -> str:
    return " ".join(f"{i}<{n}" for i, n in binders)


def _operation_text(action: Action, device: Device) -> str:
    """Return what a step does, in words."""
    match action:
        case Load(parameter, path):
            return f"argument {parameter}{''.join(f'.{side}' for side in path)}"
        case Fill(_, value):
            return f"constant {value}"
        case Nonzero(array):
            return f"{array} ≠ 0"
        case MakeIndexArray(array, below):
            return f"{array} as indices below {below}"
        case Scan(index, count) if action.solution:
            forms = ", ".join(f"s{place} {form}" for place, form in action.solution)
            return f"{count} iterations of {index} composed pairwise, {forms}, from {_inputs_text(action)}:"
        case Scan(index, count, _, _, _, _, _, _, every, backwards):
            stored = f", the values of every {_ordinal_of(every)} stored" if every else ""
            stored += ", rows from the last" if backwards else ""
            if action.sums:
                return f"running sums of {count} iterations of {index}{stored}, from {_inputs_text(action)}:"
            return f"{count} sequential iterations of {index}{stored}, from {_inputs_text(action)}:"
        case Rerun(source, length, again, back, taken, given):
            rows = ", ".join(f"r{k.row} = s{k.place}{' after' if k.after else ''}" for k in taken)
            return (
                f"{back.count} sequential iterations of {back.index}, from {_inputs_text(back, given)}; "
                f"in blocks of {length}, "
                f"from the states that {source} stored: the iterations again, from {_inputs_text(again)}, "
                f"then in reverse, {rows}:"
            )
        case Take(source, place):
            return f"s{place} of {source}"
        case Whole(_, definition, operands, _):
            return f"{definition.name}({', '.join(operands)}), array-level"
        case Contract():
            strategy = str(choose_kernel(action, device))
            terms = "·".join(map(_access_text, action.reads))
            if action.scatter_to:
                places = _indices_text(a for a, _ in action.scatter_to)
                terms = f"[{places}] += {terms}"
                strategy += ", joined" if _is_joined(action) else ", scatter-add"
            return f"{strategy}: {terms}{_lookups_text(action.indirections)}"
        case Accumulate(_, addends, parted):
            return f"added{' part by part' if parted else ''}: {_sum_text(addends)}{_lookups_text(action.indirections)}"
        case Reduce(_, function, over, read):
            return f"{function} over {', '.join(index_names(over))}: {_access_text(read)}"
        case Apply(_, function, arguments):
            inside = ", ".join(map(_sum_text, arguments))
            return f"entry by entry: {function.name}({inside}){_lookups_text(action.indirections)}"
    raise TypeError(action)


def _inputs_text(loop: Scan, rows: Sequence[int] | None = None) -> str:
    """Return what a loop's body gets, by parameter. `rows` are the numbers of its rows."""
    numbers = (range(len(loop.starts)), rows or range(len(loop.rows)), range(len(loop.wholes)))
    groups = zip("src", numbers, (loop.starts, loop.rows, loop.wholes), strict=True)
    return ", ".join(f"{p}{j} = {x}" for p, js, xs in groups for j, x in zip(js, xs, strict=True))


def _ordinal_of(n: int) -> str:
    return f"{n}th" if n > 3 else ("first", "second", "third")[n - 1]


def _is_joined(action: Contract) -> bool:
    """Whether axes become one, which is a reshape."""
    return any(len(a.terms) > 1 and a.names <= {*action.axes} for a, _ in action.scatter_to)


def _sum_text(addends: Sequence[Masked]) -> str:
    text = "".join(f" {'-' if m.minus else '+'} {_addend_text(m)}" for m in addends)
    return text.removeprefix(" + ").lstrip() or "0"


def _addend_text(m: Masked) -> str:
    mask = () if m.mask == TRUE else (f"[{show(m.mask)}]",)
    return "·".join((*mask, *m.scale, _access_text(m.read)))


def _access_text(read: Access) -> str:
    return f"{read.array}[{_indices_text(read.indices)}]" if read.indices else read.array


def _indices_text(indices: Sequence[Affine] | Iterator[Affine]) -> str:
    return ", ".join(map(str, indices))


def _lookups_text(lookups: Sequence[IndexLookup]) -> str:
    found = dict.fromkeys(map(str, lookups))
    return f" with {', '.join(found)}" if found else ""
