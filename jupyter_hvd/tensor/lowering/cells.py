"""Small stages of a sparse Jacobian, and the values that they read, computed together.

A program that is written out, bone by bone or matrix element by matrix element, has hundreds of statements with few entries each.
XLA compiles an operation in milliseconds, however short its arrays are. So the entries of small statements are *cells* of one
vector. The cells of a *level* are computed from those of the levels before: one gather, one product and one sum for all sums of
products, and one call of each elementwise function. An entry that only copies another is that entry's cell.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import pairwise
from math import prod
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from ..cost.counting import RelationData, point_tables
from ..language.function import Function
from ..language.predicates import TRUE, Predicate
from ..language.terms import Binders, in_ranges, index_names
from ..ssa.program import Addition, Constant, Contraction, Input, Map, Program, Rhs, operands
from .composition import Composer
from .entries import affine_column
from .point_values import Added, Listed, PointStep, Summed
from .specialize import at_sizes

SMALL = 65_536  # points of a stage up to which compiling an operation takes longer than running it
MOST = 1 << 20  # points of all values together
FEW = 32  # stages, or statements, up to which each is compiled by itself
ONE, ZERO = 0, 1  # the cells of these numbers
NONE = np.zeros(0, np.int64)


@dataclass(frozen=True)
class ValueEntries:
    """Known cells: the entries of a value, in order."""

    value: int


@dataclass(frozen=True)
class IntegerEntries:
    """Known cells: an array of integers, by its number."""

    array: int


Known = float | ValueEntries | IntegerEntries


class Summation(NamedTuple):
    """The cells from `start` on, `size` of them: of each point the product of two cells, added up at a slot. Arrays by their
    numbers; `slots` is None where that is q of point q.
    """

    start: int
    size: int
    left: int
    right: int
    slots: int | None


class Application(NamedTuple):
    """The cells from `start` on, `size` of them: an elementwise function of other cells, arrays by their numbers."""

    start: int
    size: int
    function: Function
    arguments: tuple[int, ...]


class Batch(NamedTuple):
    """A vector of `total` cells: those that are known, then the results of the operations, in order. `values` are the arrays that
    other stages read, each cells by an array's number and its shape; `stages` the entries of each stage that is read elsewhere.
    """

    total: int
    known: tuple[Known, ...]
    operations: tuple[Summation | Application, ...]
    values: tuple[tuple[int, tuple[int, ...]], ...]
    stages: tuple[int, ...]


Plan = tuple[Summed | Batch, ...]


@dataclass
class Cells:
    """The cells found so far, the level of each, and how they are computed. A cell is one number; its level is its distance
    from the known cells.
    """

    listed: Listed = field(default_factory=Listed)
    count: int = 0
    points: int = 0
    known: list[Known] = field(default_factory=list)
    numbers: dict[float, int] = field(default_factory=dict)
    levels: Any = field(default_factory=lambda: np.zeros(1024, np.int64))
    kinds: Any = field(default_factory=lambda: np.zeros(1024, np.int64))
    sums: list[tuple[Any, Any, Any]] = field(default_factory=lambda: [(NONE, NONE, NONE)])
    functions: dict[Function, int] = field(default_factory=dict)  # their kinds
    calls: dict[int, list[tuple[Any, tuple[Any, ...]]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.number_cell(1.0)
        self.number_cell(0.0)

    def begin_part(self, part: Known, n: int) -> Any:
        """Add n known cells; return their numbers."""
        self.known.append(part)
        return self._new_cells(np.zeros(n, np.int64), 0)

    def number_cell(self, x: float) -> int:
        """Return the cell of a constant."""
        if x not in self.numbers:
            (self.numbers[x],) = self.begin_part(x, 1)
        return self.numbers[x]

    def sum_products(self, size: int, slots: Any, left: Any, right: Any) -> Any:
        """Add `size` cells, each a sum of products of two cells; return their numbers.

        Args:
            slots: for each product, which sum it belongs to. left, right: its cells.
        """
        first = left == ONE
        left, right = np.where(first, right, left), np.where(first, ONE, right)
        kept = (left != ZERO) & (right != ZERO)
        if not kept.all():
            slots, left, right = slots[kept], left[kept], right[kept]
        counts = np.bincount(slots, minlength=size)
        copied = (counts[slots] == 1) & (right == ONE)
        cells = np.where(counts == 0, ZERO, -1)
        cells[slots[copied]] = left[copied]
        new = np.flatnonzero(cells < 0)
        added = ~copied
        slots, left, right = slots[added], left[added], right[added]
        levels = np.zeros(size, np.int64)
        np.maximum.at(levels, slots, np.maximum(self.levels[left], self.levels[right]) + 1)
        cells[new] = self._new_cells(levels[new], 0)
        self.sums.append((cells[slots], left, right))
        self.points += len(slots)
        return cells

    def apply_function(self, function: Function, arguments: Sequence[Any]) -> Any:
        """Add the cells of a function's values; return their numbers."""
        kind = self.functions.setdefault(function, 1 + len(self.functions))
        levels = reduce(np.maximum, [self.levels[a] for a in arguments]) + 1
        cells = self._new_cells(levels, kind)
        self.calls.setdefault(kind, []).append((cells, tuple(arguments)))
        self.points += len(cells)
        return cells

    def _new_cells(self, levels: Any, kind: int) -> Any:
        """Reserve cells with these levels and one kind; return their numbers."""
        start, self.count = self.count, self.count + len(levels)
        if self.count > len(self.levels):
            self.levels = np.resize(self.levels, 2 * self.count)
            self.kinds = np.resize(self.kinds, 2 * self.count)
        self.levels[start : self.count] = levels
        self.kinds[start : self.count] = kind
        return np.arange(start, self.count)

    def batch_stages(self, values: Mapping[int, Any], stages: Sequence[Any]) -> Batch:
        """Return all cells as one batch, ordered by level, with the values and stages that are read elsewhere."""
        listed = self.listed
        levels, kinds = self.levels[: self.count], self.kinds[: self.count]
        order = np.lexsort((kinds, levels))
        where = np.empty(self.count, np.int64)
        where[order] = np.arange(self.count)
        slot, left, right = (where[np.concatenate(c)] for c in zip(*self.sums, strict=True))
        order_ = np.argsort(slot, kind="stable")
        slot, left, right = slot[order_], left[order_], right[order_]
        called = {}
        for kind, calls in self.calls.items():
            cells = where[np.concatenate([c for c, _ in calls])]
            rows = np.argsort(cells)
            arguments = zip(*(a for _, a in calls), strict=True)
            called[kind] = cells[rows], [where[np.concatenate(a)][rows] for a in arguments]
        function_of = {kind: f for f, kind in self.functions.items()}
        level, kind = levels[order], kinds[order]
        changes = np.flatnonzero((np.diff(level) != 0) | (np.diff(kind) != 0)) + 1
        operations: list[Summation | Application] = []
        for start, end in pairwise((*changes, self.count)):
            size = int(end - start)
            if function := function_of.get(int(kind[start])):
                cells, given = called[int(kind[start])]
                a, b = np.searchsorted(cells, (start, end))
                read = tuple([listed(x[a:b]) for x in given])
                operations.append(Application(int(start), size, function, read))
                continue
            a, b = np.searchsorted(slot, (start, end))
            slots = slot[a:b] - start
            each = np.array_equal(slots, np.arange(size))
            at = None if each else listed(slots)
            made = Summation(int(start), size, listed(left[a:b]), listed(right[a:b]), at)
            operations.append(made)
        return Batch(
            self.count,
            tuple(self.known),
            tuple(operations),
            tuple([(listed(where[c].ravel()), c.shape) for c in values.values()]),
            tuple([listed(where[c]) for c in stages]),
        )


@dataclass(frozen=True)
class Written:
    """The values of a program as cells: the cells of those that are read, by name, and the parameters that they are made of."""

    cells: Cells
    of: Mapping[str, Any]
    inputs: tuple[str, ...]


def values_as_cells(
    program: Program,
    names: Sequence[str],
    sizes: Mapping[str, int],
    data: Mapping[str, RelationData],
    few: int = FEW,
) -> Written | None:
    """Return some values of a program as cells; None for at most `few` statements, or if a value cannot be computed cell by
    cell.
    """
    statements = {s.name: s.rhs for s in program.statements}
    needed = {*names}
    for s in reversed(program.statements):
        if s.name in needed:
            needed.update(operands(s.rhs))
    if len(needed) <= few or not all(_has_cells(statements[x]) for x in needed):
        return None
    kept = tuple([s for s in program.statements if s.name in needed])
    cells, inputs = (
        Cells(),
        tuple(dict.fromkeys(s.rhs.parameter for s in kept if isinstance(s.rhs, Input))),
    )
    of: dict[str, Any] = {}
    for s in at_sizes(Program(kept, kept[-1].name), sizes).statements:
        sums = s.rhs.sums if isinstance(s.rhs, Contraction) else ()
        if prod(_shape_of_binders((*s.rhs.gens, *sums))) > MOST:
            return None
        of[s.name] = _statement_cells(s.rhs, of, cells, inputs, data)
        if cells.points > MOST or cells.count > MOST:
            return None
    return Written(cells, of, inputs)


def _has_cells(rhs: Rhs) -> bool:
    """Whether a statement can be computed cell by cell."""
    match rhs:
        case Input():
            return not rhs.path
        case Constant():
            return isinstance(rhs.value, Real)
        case Contraction():
            return bool(rhs.factors)
    return isinstance(rhs, Addition | Map)


def _shape_of_binders(binders: Binders) -> tuple[int, ...]:
    """Return the shape over binders with known sizes."""
    return tuple([max(0, n.evaluate({})) for n in in_ranges(binders)])


def _statement_cells(
    rhs: Rhs,
    of: Mapping[str, Any],
    cells: Cells,
    inputs: Sequence[str],
    data: Mapping[str, RelationData],
) -> Any:
    """Return the cells of a statement's entries, in an array of its shape."""
    shape = _shape_of_binders(rhs.gens)
    size = prod(shape)
    match rhs:
        case Input():
            return cells.begin_part(ValueEntries(inputs.index(rhs.parameter)), size).reshape(shape)
        case Constant():
            return np.full(shape, cells.number_cell(float(rhs.value)))  # type: ignore[arg-type]
        case Map():
            inside = _entries_inside(rhs.gens, rhs.mask, data)
            made = np.full(size, ZERO)
            made[inside] = cells.apply_function(
                rhs.function, [of[x].ravel()[inside] for x in rhs.arguments]
            )
            return made.reshape(shape)
        case Addition():
            halves = (rhs.left_mask, rhs.left), (rhs.right_mask, rhs.right)
            at = [_entries_inside(rhs.gens, p, data) for p, _ in halves]
            read = [of[x].ravel()[i] for i, (_, x) in zip(at, halves, strict=True)]
            slots, left = np.concatenate(at), np.concatenate(read)
            return cells.sum_products(size, slots, left, np.full(len(left), ONE)).reshape(shape)
        case Contraction():
            every = (*rhs.gens, *rhs.sums)
            blocks = [
                (n, {i: np.broadcast_to(c[i], (n,)) for i in index_names(every)})
                for n, c in point_tables(every, rhs.mask, data)
            ]
            rows = sum(n for n, _ in blocks)
            columns = {
                i: np.concatenate([NONE, *(c[i] for _, c in blocks)]) for i in index_names(every)
            }
            factors = [
                of[f.name][tuple([affine_column(a, columns, rows) for a in f.indices])]
                * np.ones(rows, int)
                for f in rhs.factors
            ]
            here = [columns[i] for i in index_names(rhs.gens)]
            slots = np.ravel_multi_index(here, shape) if shape else np.zeros(rows, np.int64)
            *first, last = factors
            left = _product_cells(cells, first, rows) if first else np.full(rows, ONE)
            return cells.sum_products(size, slots, left, last).reshape(shape)
    raise TypeError(rhs)


def _product_cells(cells: Cells, factors: Sequence[Any], n: int) -> Any:
    """Return the cells of the products of several arrays of n cells."""
    return reduce(lambda a, b: cells.sum_products(n, np.arange(n), a, b), factors)


def _entries_inside(gens: Binders, p: Predicate, data: Mapping[str, RelationData]) -> Any:
    """Return the flat positions at which a predicate holds."""
    shape = _shape_of_binders(gens)
    if p == TRUE:
        return np.arange(prod(shape))
    found = []
    for n, columns in point_tables(gens, p, data):
        here = [np.broadcast_to(columns[i], (n,)) for i in index_names(gens)]
        found.append(np.ravel_multi_index(here, shape) if shape else np.zeros(n, np.int64))
    return np.sort(np.concatenate([NONE, *found]))


def batch_plan(
    plan: Sequence[Summed],
    arrays: Sequence[Any],
    counts: Sequence[Sequence[int]],
    shape: Callable[[int], tuple[int, ...]],
    written: Mapping[int, Any] | None = None,
    cells: Cells | None = None,
    aligned: frozenset[int] = frozenset(),
    few: int = FEW,
) -> tuple[Plan, tuple[Any, ...]]:
    """Return the plan with its small stages as one batch, if there are more than `few`, and the arrays that it reads.

    Args:
        counts: the number of points of each addend. shape: the shape of a value by its number.
        written: the cells of values that are computed in the batch, by number; the batch makes them for other stages, too.
        aligned: the values whose entries are an addend's points, in order.
    """
    composer = Composer(Listed.of(arrays), aligned)
    small: list[int] = []
    for k, (stage, points) in enumerate(zip(plan, counts, strict=True)):
        sources = {a.source for a in stage.addends} - {None}
        if sum(points) <= SMALL and sources.issubset(small):
            small.append(k)
    if len(small) <= few and cells is None:
        listed, itself = Listed(), {k: k for k in range(len(plan))}
        stages = [_renumber_stage(stage, itself, None, composer, listed) for stage in plan]
        return tuple(stages), tuple(listed.arrays)
    builder = _Stages(cells or Cells(), arrays, shape, dict(written or {}))
    for k in small:
        builder.add_stage(k, plan[k], counts[k])
    inside = frozenset(small)
    rest = [k for k in range(len(plan)) if k not in inside]
    read = {a.source for k in rest for a in plan[k].addends}
    outputs = [k for k in small if k in read or k == len(plan) - 1]
    taken = {s.value for k in rest for a in plan[k].addends for s in a.steps if s.operation == "[]"}
    wanted = {v: builder.values[v] for v in sorted(taken)} if cells is not None else {}
    batch = builder.cells.batch_stages(wanted, [builder.of[k] for k in outputs])
    number = {k: n for n, k in enumerate((*outputs, *rest))}
    given = {v: n for n, v in enumerate(wanted)} if cells is not None else None
    listed = builder.cells.listed
    stages = [_renumber_stage(plan[k], number, given, composer, listed) for k in rest]
    made = (a if a.dtype == bool else a.astype(np.int32) for a in listed.arrays)
    return (batch, *stages), tuple(made)


def _renumber_stage(
    stage: Summed,
    number: Mapping[int, int],
    given: Mapping[int, int] | None,
    composer: Composer,
    listed: Listed,
) -> Summed:
    """Return a stage that is not in the batch, with new numbers for its sources, values and arrays."""
    arrays = composer.listed.arrays

    def new_number(k: int | None) -> int | None:
        return None if k is None else listed(arrays[k])

    addends = []
    by_entry = (part for a in stage.addends for part in composer.at_entries(a, stage.size))
    for source, position, steps, slot, inside in by_entry:
        moved = [
            step._replace(
                masks=tuple(map(new_number, step.masks)),
                places=tuple([listed(arrays[k]) for k in step.places]),
                value=given[step.value] if given and step.operation == "[]" else step.value,
            )
            for step in steps
        ]
        at = None if source is None else number[source]
        addends.append(
            Added(at, new_number(position), tuple(moved), new_number(slot), new_number(inside))
        )
    return Summed(stage.size, tuple(addends))


@dataclass
class _Stages:
    """The entries of small stages as cells."""

    cells: Cells
    arrays: Sequence[Any]
    shape: Callable[[int], tuple[int, ...]]
    values: dict[int, Any]  # the cells of each value's entries, in an array of its shape
    of: dict[int, Any] = field(default_factory=dict)  # those of each stage's

    def add_stage(self, k: int, stage: Summed, counts: Sequence[int]) -> None:
        """Add the cells of a stage, after those of its sources."""
        slots, left, right = [NONE], [NONE], [NONE]
        for (source, position, steps, slot, inside), n in zip(stage.addends, counts, strict=True):
            read = np.full(n, ONE) if source is None else self.of[source]
            at = read if position is None else read[self.arrays[position]]
            left.append(_select_cells(None if inside is None else self.arrays[inside], at, ZERO))
            right.append(self._factor_cells(steps, n))
            slots.append(np.arange(n) if slot is None else self.arrays[slot])
        points = (np.concatenate(c) for c in (slots, left, right))
        self.of[k] = self.cells.sum_products(stage.size, *points)

    def _factor_cells(self, steps: Sequence[PointStep], n: int) -> Any:
        """Return the cells of an addend's factors, at its points."""
        found: list[Any] = [np.full(n, ONE)]
        for step in steps:
            given = [found[k + 1] for k in step.arguments]
            masks = [None if k is None else self.arrays[k] for k in step.masks]
            if step.operation == "+":
                kept = [_select_cells(m, x, ZERO) for m, x in zip(masks, given, strict=True)]
                slots = np.tile(np.arange(n), len(kept))
                one = np.full(len(slots), ONE)
                found.append(self.cells.sum_products(n, slots, np.concatenate(kept), one))
                continue
            (mask,) = masks
            if isinstance(step.operation, Function):
                made = self.cells.apply_function(
                    step.operation, [_select_cells(mask, x, ONE) for x in given]
                )
            elif step.operation == "*":
                made = _product_cells(self.cells, given, n)
            elif step.operation == "[]":
                made = self._read_cells(step, n)
            elif step.operation is None:
                made = self.cells.begin_part(
                    IntegerEntries(self.cells.listed(self.arrays[step.places[0]])), n
                )
            else:
                made = np.full(n, self.cells.number_cell(float(step.operation)))  # type: ignore[arg-type]
            found.append(_select_cells(mask, made, ZERO))
        return found[-1]

    def _read_cells(self, step: PointStep, n: int) -> Any:
        """Return the cells of the entries that a step reads."""
        if step.value not in self.values:
            shape = self.shape(step.value)
            cells = self.cells.begin_part(ValueEntries(step.value), prod(shape))
            self.values[step.value] = cells.reshape(shape)
        entries = self.values[step.value]
        if step.places:
            # Where a mask is false a place may be outside.
            if not entries.size:
                return np.full(n, ZERO)
            at = [self.arrays[k] for k in step.places]
            inside = [np.clip(a, 0, k - 1) for a, k in zip(at, entries.shape, strict=True)]
            return entries[tuple(inside)]
        return np.broadcast_to(entries, (n,))


def _select_cells(mask: Any, cells: Any, other: int) -> Any:
    """Return the cells where a mask is true, and another cell elsewhere."""
    return cells if mask is None else np.where(mask, cells, other)
