"""Counts the integer points of a predicate, at given sizes and with the relations' data."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from itertools import chain
from math import prod
from typing import Any

import numpy as np

from ..language.affine import Affine
from ..language.predicates import (
    And,
    Compare,
    Exists,
    Or,
    Predicate,
    Related,
    conj,
    conjuncts,
    disj,
    exists_all,
    is_asserted,
    solve,
    substitute,
)
from ..language.terms import Binder, Binders, Term, uniquify
from ..language.types import IndexArray, Relation, TupleSet
from ..polyhedral import sets
from ..polyhedral.points import Aligned, Axes, Points
from .formula import count_operations, symbolic_count
from .model import Cost

Columns = dict[str, Any]
BLOCK = 1 << 22  # rows that are looked at together
FAR = np.iinfo(np.int32).max
# Out-of-range sentinel: nor is any small multiple of it in range, wrapped round at 32 bits (Knuth's
# constant).
OUTSIDE = 0x9E3779B1 >> 1


@dataclass(frozen=True, eq=False)
class RelationData:
    """A relation's type and its data: a boolean array, an integer array, or index tuples as rows."""

    type: Relation | IndexArray | TupleSet
    array: Any

    @staticmethod
    def of(type_: Relation | IndexArray | TupleSet, value: Any) -> RelationData:
        """Convert an argument of a call; the tuples of a set become sorted rows."""
        return RelationData(
            type_,
            sort_tuples(value, type_.arity) if isinstance(type_, TupleSet) else np.asarray(value),
        )

    @cached_property
    def rows(self) -> Any:
        """The index tuples as rows."""
        match self.type:
            case TupleSet(arity):
                return np.asarray(self.array, np.int64).reshape(-1, arity)
            case Relation():
                return np.argwhere(self.array)
        places = np.indices(self.array.shape).reshape(self.array.ndim, -1).T
        return np.concatenate([places, np.reshape(self.array, (-1, 1))], 1)

    def holds_at(self, columns: list[Any]) -> Any:
        """Whether each index tuple is in the relation; false outside its range."""
        if isinstance(self.type, TupleSet):
            return _is_member(self.array, columns)
        places = columns if isinstance(self.type, Relation) else columns[:-1]
        inside: Any = np.asarray(True)
        for a, n in zip(places, self.array.shape, strict=True):
            inside = inside & (a >= 0) & (a < n)
        if 0 in self.array.shape:
            return inside & False
        entry = self.array[
            tuple(np.clip(a, 0, n - 1) for a, n in zip(places, self.array.shape, strict=True))
        ]
        return inside & (entry if isinstance(self.type, Relation) else entry == columns[-1])


def sort_tuples(tuples: Collection[Any], arity: int) -> Any:
    """Convert index tuples to sorted rows, in a fifth of the time of Python's `sorted`.

    An index that does not fit in 32 bits is outside of every array, and must not wrap around.
    """
    entries, count = chain.from_iterable(tuples), len(tuples) * arity
    try:
        found = np.fromiter(entries, np.int64, count)
    except OverflowError:
        near = (i if -FAR <= i <= FAR else OUTSIDE for t in tuples for i in t)
        found = np.fromiter(near, np.int64, count)
    found = np.where((found < -FAR) | (found > FAR), OUTSIDE, found)
    columns = found.reshape(len(tuples), arity).T
    return np.ascontiguousarray(columns[:, np.lexsort(columns[::-1])].T)


def _is_member(relation_rows: Any, columns: list[Any]) -> Any:
    """Return, for each row of the columns, whether it is a row of the relation."""
    if not len(relation_rows):
        return np.asarray(False) & (columns[0] == columns[0])
    low, high = relation_rows.min(axis=0), relation_rows.max(axis=0)
    key, keys, inside = np.int64(0), np.zeros(len(relation_rows), np.int64), np.asarray(True)
    for k, a in enumerate(columns):
        inside = inside & (a >= low[k]) & (a <= high[k])
        extent = int(high[k] - low[k]) + 1
        key, keys = key * extent + (a - low[k]), keys * extent + (relation_rows[:, k] - low[k])
    asked: Any = np.where(inside, key, -1)
    _, counts = _find_runs(
        np.sort(keys, kind="stable"), asked.reshape(-1), prod((high - low + 1).tolist())
    )
    return (counts > 0).reshape(asked.shape)


def count_points(
    binders: Binders, p: Predicate, data: Mapping[str, RelationData], sums: Binders = ()
) -> int:
    """Return `#{binders | ∃ sums. p}` exactly, for binders and a predicate without size names."""
    extents = {index: max(0, n.evaluate({})) for index, n in (*binders, *sums)}
    if 0 in extents.values():
        return 0
    p = sets.simplify(p, (*binders, *sums))
    if not p.relations:
        p, sums = sets.simplify(exists_all(sums, p), binders), ()
    free = prod(extents[index] for index, _ in binders if index not in p.names)
    if not p.names and not p.relations:
        return free if isinstance(p, And) else 0
    if not p.relations and (pieces := symbolic_count(binders, p)) is not None:
        return int(sum(polynomial.evaluate({}) for _, polynomial in pieces[:1]))
    found = point_tables(tuple(b for b in (*binders, *sums) if b.name in p.names), p, data)
    if sums:
        kept = [index for index, _ in binders if index in p.names]
        return free * len(find_distinct_rows(kept, found, extents))
    return free * sum(rows for rows, _ in found)


def cost_at(e: Term, sizes: Mapping[str, int], data: Mapping[str, RelationData]) -> Cost:
    """Count the operations of a term exactly (4.22–4.34).

    `model.cost` counts by visiting all indices; this function visits only the points at which something is computed.
    """
    values = {name: Affine.of(n) for name, n in sizes.items()}

    def at_sizes(binders: Binders) -> Binders:
        return tuple([Binder(index, n.substitute(values)) for index, n in binders])

    found = {"additions": 0, "multiplications": 0, "calls": 0}
    counts: dict[tuple[Binders, Predicate, Binders], int] = {}
    for operation in count_operations(uniquify(e)):
        condition = substitute(operation.condition, values)
        key = at_sizes(operation.binders), condition, at_sizes(operation.sums)
        if key not in counts:
            counts[key] = count_points(key[0], condition, data, key[2])
        found[operation.kind] += operation.times * counts[key]
    return Cost(**found)


def point_tables(
    binders: Binders, p: Predicate, data: Mapping[str, RelationData]
) -> Iterator[tuple[int, Columns]]:
    """Yield the points of `{binders | p}` as columns of indices, in blocks."""
    ranges = {index: max(0, n.evaluate({})) for index, n in binders}
    found = dict(data)
    p = _materialize_quantifiers(p, ranges, found)
    yield from _join_tables({}, 1, ranges, list(conjuncts(p)), found)


def _materialize_quantifiers(
    p: Predicate, ranges: Mapping[str, int], data: dict[str, RelationData]
) -> Predicate:
    """Replace each `∃` over relations in `p` by a relation of its values, which is added to the data."""
    match p:
        case And(parts):
            return conj(*(_materialize_quantifiers(part, ranges, data) for part in parts))
        case Or(parts):
            return disj(*(_materialize_quantifiers(part, ranges, data) for part in parts))
        case Exists(index, size, body) if p.relations:
            inner = {**ranges, index: max(0, size.evaluate({}))}
            body = _materialize_quantifiers(body, inner, data)
            if not any(is_asserted(q) for q in conjuncts(body)):
                return Exists(index, size, body)
            free = tuple(i for i in ranges if i in p.names)
            used = {i: inner[i] for i in (*free, index)}
            keys = find_distinct_rows(
                free, _join_tables({}, 1, used, list(conjuncts(body)), data), ranges
            )
            shape = tuple(ranges[i] for i in free)
            name = f"∃{len(data)}"
            rows = np.stack(np.unravel_index(keys, shape), 1) if free else keys[:, None]
            data[name] = RelationData(TupleSet(len(free) or 1), rows)
            return Related(name, tuple(map(Affine.of, free)) or (Affine.of(0),))
    return p


def find_distinct_rows(
    names: Sequence[str], tables: Iterable[tuple[int, Columns]], ranges: Mapping[str, int]
) -> Any:
    """Return the distinct rows of some columns, sorted, as positions in the box of their ranges."""
    seen: Any = np.zeros(0, np.int64)
    for rows, columns in tables:
        key: Any = np.zeros(rows, np.int64)
        for index in names:
            key = key * ranges[index] + columns[index]
        seen = sort_unique(np.concatenate([seen, key]))
    return seen


def sort_unique(keys: Any) -> Any:
    """Return the distinct integers of an array, sorted.

    As `np.unique`, whose hash table takes many times as long for some sets of millions of positions. Sorted runs are merged.
    """
    ordered = np.sort(keys, kind="stable")
    return ordered[np.concatenate([[True], ordered[1:] != ordered[:-1]])] if len(keys) else keys


def _join_tables(
    columns: Columns,
    rows: int,
    ranges: Mapping[str, int],
    waiting: list[Predicate],
    data: Mapping[str, RelationData],
) -> Iterator[tuple[int, Columns]]:
    """Yield the points that satisfy all of `waiting`, as tables: extend each row by the remaining indices.

    Args:
        columns: the known indices of each row.
        ranges: the extents of all indices.
        waiting: conjuncts that are not checked yet.
    """
    waiting = list(waiting)
    while True:
        ready = [q for q in waiting if all(i in columns for i in q.names)]
        waiting = [q for q in waiting if q not in ready]
        for q in ready:
            kept = np.broadcast_to(holds_in_rows(q, columns, data), (rows,))
            columns = {i: column[kept] for i, column in columns.items()}
            rows = int(kept.sum())
        if rows == 0:
            return
        missing = [i for i in ranges if i not in columns]
        if not missing:
            yield rows, columns
            return
        found = _determine_index(waiting, columns, missing, data)
        if found is None:
            break
        index, column = found
        column = np.broadcast_to(column, (rows,))
        kept = (column >= 0) & (column < ranges[index])
        columns = {**{i: c[kept] for i, c in columns.items()}, index: column[kept]}
        rows = int(kept.sum())
    matches = [
        m for q in waiting if (m := _match_relation(q, columns, rows, missing, data)) is not None
    ]
    best = min(matches, key=lambda m: m.total, default=None)
    if best is not None and best.total <= rows * prod(ranges[i] for i in best.values):
        waiting = [q for q in waiting if q is not best.implied]
        for joined, found_rows in best.expand_rows(columns, ranges):
            yield from _join_tables(joined, found_rows, ranges, waiting, data)
        return
    bounded = [_Bounded.of(i, ranges[i], waiting, columns, rows) for i in missing]
    for part, found_rows in min(bounded, key=lambda b: b.total).expand_rows(columns):
        yield from _join_tables(part, found_rows, ranges, waiting, data)


@dataclass(frozen=True)
class _Bounded:
    """The values of an index that comparisons with known indices allow in each row: `count` values from `low` on."""

    index: str
    low: Any
    count: Any

    @staticmethod
    def of(
        index: str, extent: int, waiting: Sequence[Predicate], columns: Columns, rows: int
    ) -> _Bounded:
        """Return the values that comparisons in `waiting` allow for an index in each row."""
        low, high = _index_bounds(conj(*waiting), index, extent, columns)
        low = np.broadcast_to(np.clip(low, 0, extent), (rows,))
        high = np.broadcast_to(np.clip(high, -1, extent - 1), (rows,))
        return _Bounded(index, low, np.maximum(high - low + 1, 0))

    @property
    def total(self) -> int:
        """The sum of all counts."""
        return int(self.count.sum())

    def expand_rows(self, columns: Columns) -> Iterator[tuple[Columns, int]]:
        """Yield the rows with each of the values, in blocks."""
        for rows, offsets in _expand_counts(self.count):
            part = {i: c[rows] for i, c in columns.items()}
            yield {**part, self.index: self.low[rows] + offsets}, len(rows)


def _index_bounds(p: Predicate, index: str, extent: int, columns: Columns) -> tuple[Any, Any]:
    """Return the smallest and largest value of an index at which `p` may hold, as far as known columns decide."""
    everything = np.asarray(0), np.asarray(extent - 1)
    match p:
        case And(parts) | Or(parts) if parts:
            bounds = [
                _index_bounds(q, index, extent, columns)
                for q in parts
                if index in q.names or isinstance(p, Or)
            ]
            if not bounds:
                return everything
            inner, outer = (
                (np.maximum, np.minimum) if isinstance(p, And) else (np.minimum, np.maximum)
            )
            lows, highs = zip(*bounds, strict=True)
            return reduce(inner, lows), reduce(outer, highs)
        case Compare(op) if index in p.names and p.names - {index} <= columns.keys():
            k = p.difference.coefficient(index)
            if k == 0:  # it stands on both sides
                return everything
            rest = affine_values(p.difference - Affine.of(index) * k, columns)
            slack = 1 if op == "<" else 0
            # k·index + rest ≥ slack, and ≤ 0 too where it is an equality.
            low, high = everything
            if k > 0 or op == "=":
                low = -((rest - slack) // k) if k > 0 else -(rest // k)
            if k < 0 or op == "=":
                high = (rest - slack) // -k if k < 0 else -rest // k
            return low, high
    return everything


def _expand_counts(count: Any) -> Iterator[tuple[Any, Any]]:
    """Repeat each row as often as its count says, numbered 0, 1, …; yield row numbers and these numbers in blocks."""
    ends = np.cumsum(count)
    start = 0
    while start < len(ends):
        before = int(ends[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, before + BLOCK, "right")))
        part = count[start:stop]
        rows = np.repeat(np.arange(start, stop), part)
        yield rows, np.arange(len(rows)) - np.repeat(np.cumsum(part) - part, part)
        start = stop


@dataclass(frozen=True)
class _Matches:
    """The tuples of a relation that agree with each row in the known arguments: `count` tuples from `first` on.

    `values` has, for each index that a tuple determines, the argument and the tuples' entries. `implied` is the
    relation, if it holds for all joined tuples.
    """

    first: Any
    count: Any
    values: Mapping[str, tuple[Affine, Any]]
    implied: Predicate | None

    @property
    def total(self) -> int:
        """The sum of all counts."""
        return int(self.count.sum())

    def expand_rows(
        self, columns: Columns, ranges: Mapping[str, int]
    ) -> Iterator[tuple[Columns, int]]:
        """Yield the rows with each of their tuples, in blocks."""
        for rows, offsets in _expand_counts(self.count):
            places = self.first[rows] + offsets
            part = {i: c[rows] for i, c in columns.items()}
            kept = np.ones(len(rows), bool)
            for index, (a, entries) in self.values.items():
                k = a.coefficient(index)
                left = entries[places] - affine_values(a - Affine.of(index) * k, columns, rows)
                part[index] = left // k
                kept &= (left % k == 0) & (part[index] >= 0) & (part[index] < ranges[index])
            yield {i: c[kept] for i, c in part.items()}, int(kept.sum())


def _match_relation(
    q: Predicate,
    columns: Columns,
    rows: int,
    missing: Sequence[str],
    data: Mapping[str, RelationData],
) -> _Matches | None:
    """Join rows with a relation's tuples; None where the tuples determine no index."""
    if not is_asserted(q):
        return None
    known = [k for k, a in enumerate(q.arguments) if a.names <= columns.keys()]
    solved: dict[str, int] = {}
    for k, a in enumerate(q.arguments):
        unknown = [i for i in a.names if i in missing]
        if len(unknown) == 1:
            solved.setdefault(unknown[0], k)
    if not solved:
        return None
    table = data[q.relation].rows
    used = [*known, *solved.values()]
    whole, table = len(used) == table.shape[1], table[:, used]
    table = table if whole else np.unique(table, axis=0)  # the others are asked once known
    wanted = [np.broadcast_to(affine_values(q.arguments[k], columns), (rows,)) for k in known]
    keys, asked, size = _rank_rows(table, wanted, rows)
    order = np.argsort(keys, kind="stable")
    first, count = _find_runs(keys[order], asked, size)
    values = {
        index: (q.arguments[k], table[order, len(known) + n])
        for n, (index, k) in enumerate(solved.items())
    }
    return _Matches(first, count, values, q if whole else None)


def _rank_rows(table: Any, wanted: Sequence[Any], rows: int) -> tuple[Any, Any, int]:
    """Number the leading columns of a table and the wanted rows so that equal rows have equal numbers.

    Returns:
        both lists of numbers, -1 for a wanted row that the table does not have, and a number above all of them.
    """
    keys, asked, size = np.zeros(len(table), np.int64), np.zeros(rows, np.int64), 1
    if not len(table):
        return keys, asked - 1, size
    for k, values in enumerate(wanted):
        low, high = int(table[:, k].min()), int(table[:, k].max())
        extent = high - low + 1
        if size * extent > np.iinfo(np.int64).max:
            known, keys = np.unique(keys, return_inverse=True)
            asked, size = _find_positions(known, asked), len(known)
        inside = (asked >= 0) & (values >= low) & (values <= high)
        keys = keys * extent + (table[:, k] - low)
        asked = np.where(inside, asked * extent + (values - low), -1)
        size *= extent
    return keys, asked, size


def _find_runs(ordered: Any, numbers: Any, size: int) -> tuple[Any, Any]:
    """Find where each number begins in a sorted array, and how often it occurs.

    Numbers below a small `size` are counted instead of searched.
    """
    if size > 2 * (len(ordered) + len(numbers)):
        first, last = (np.searchsorted(ordered, numbers, side) for side in ("left", "right"))
        return first, last - first
    counts = np.append(np.bincount(ordered, minlength=size), 0)  # the last is that of -1
    return (np.cumsum(counts) - counts)[numbers], counts[numbers]


def _find_positions(ordered: Any, values: Any) -> Any:
    """Return the position of each value in a sorted array, -1 where it is missing."""
    place = np.searchsorted(ordered, values)
    there = (place < len(ordered)) & (np.append(ordered, 0)[place] == values)
    return np.where(there, place, -1)


def _determine_index(
    waiting: list[Predicate], columns: Columns, missing: list[str], data: Mapping[str, RelationData]
) -> tuple[str, Any] | None:
    """Return an index that a conjunct determines in each row, with its values; None if there is none."""
    for q in waiting:
        unknown = [i for i in missing if i in q.names]
        if len(unknown) != 1:
            continue
        (index,) = unknown
        if (value := solve(q, index)) is not None:
            return index, affine_values(value, columns)
        if is_asserted(q):
            source, target = data[q.relation], q.arguments[-1]
            rest = frozenset().union(*(a.names for a in q.arguments[:-1]))
            if isinstance(source.type, IndexArray) and index not in rest:
                k = target.coefficient(index)
                if abs(k) == 1 and source.array.size:
                    places = [affine_values(a, columns) for a in q.arguments[:-1]]
                    shape = source.array.shape
                    inside = [np.clip(a, 0, n - 1) for a, n in zip(places, shape, strict=True)]
                    entry = source.array[tuple(inside)]
                    other = target - Affine.of(index) * k
                    # Where the place lies outside, the conjunct itself removes the row later.
                    return index, (entry - affine_values(other, columns)) * k
    return None


def affine_values(a: Affine, columns: Mapping[str, Any], rows: Any = ...) -> Any:
    """Evaluate an affine expression on columns of indices, in some of their rows."""
    total: Any = np.asarray(a.constant, np.int64)
    for name, k in a.terms:
        total = total + columns[name][rows] * k
    return total


def holds_in_rows(p: Predicate, columns: Columns, data: Mapping[str, RelationData]) -> Any:
    """Whether a predicate holds in each row; a scalar where it is the same in all."""
    return _Rows({name: (column, ("row",)) for name, column in columns.items()}, data).holds_at(p)[
        0
    ]


@dataclass(frozen=True)
class _Rows(Points):
    """The rows of a table: each column with the axes that it has, rows and quantified indices."""

    columns: Mapping[str, Aligned]
    data: Mapping[str, RelationData]

    def affine_values(self, a: Affine) -> Aligned:
        """Return the values of an affine expression, with the axes that they have."""
        values, axes = self.broadcast_together([self.columns[name] for name in sorted(a.names)])
        named = dict(zip(sorted(a.names), values, strict=True))
        return affine_values(a, named), axes

    def add_axis(self, axis: str, extent: int) -> Points:
        """Return these rows with a new axis, on which a quantified index runs from 0 to `extent` - 1."""
        return _Rows({**self.columns, axis: (np.arange(extent), (axis,))}, self.data)

    def broadcast_together(self, values: Sequence[Aligned]) -> tuple[list[Any], Axes]:
        """Give values the same axes, so that they can be combined; return them and the axes."""
        axes = tuple(dict.fromkeys(axis for _, has in values for axis in has))
        return [_align_axes(value, axes) for value in values], axes

    def is_member(self, relation: str, arguments: tuple[Affine, ...]) -> Aligned:
        """Return where the tuple of arguments is in a relation, with the axes of the result."""
        columns, axes = self.broadcast_together([self.affine_values(a) for a in arguments])
        return self.data[relation].holds_at(columns), axes


def _align_axes(value: Aligned, axes: Axes) -> Any:
    """Transpose a value and insert axes of length 1, so that it has exactly these axes."""
    array, has = value
    array = np.transpose(array, [has.index(axis) for axis in axes if axis in has])
    return np.expand_dims(array, [k for k, axis in enumerate(axes) if axis not in has])
