"""How many integer points a predicate has, at given sizes and with the relations' data.

Affine predicates are summed in closed form (`formula.symbolic`). Where data decide, the points are
joined as columns of a table, the way a database would: an equality or an index array that determines
an index gives its column, a range that nothing determines is crossed with the rows, and each
conjunct removes the rows where it fails. So the work follows the points, not the index space.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ..language.affine import Affine
from ..language.predicates import (
    NOT,
    And,
    Compare,
    Exists,
    Or,
    Predicate,
    Related,
    conjuncts,
    solve,
)
from ..language.terms import Binders
from ..language.types import IndexArray, Relation, TupleSet
from ..polyhedral import sets
from .formula import symbolic

Columns = dict[str, Any]
BLOCK = 1 << 22  # rows that are looked at together


@dataclass(frozen=True, eq=False)
class Data:
    """A relation's type and its data: a boolean array, an integer array, or rows of index tuples."""

    type: Relation | IndexArray | TupleSet
    array: Any

    def holds(self, columns: list[Any]) -> Any:
        """Whether each index tuple is in the relation; false where it lies outside."""
        if isinstance(self.type, TupleSet):
            return _member(self.array, columns)
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


def _member(rows: Any, columns: list[Any]) -> Any:
    if not len(rows):
        return np.asarray(False) & (columns[0] == columns[0])
    low, high = rows.min(axis=0), rows.max(axis=0)
    key, keys, inside = np.int64(0), np.zeros(len(rows), np.int64), np.asarray(True)
    for k, a in enumerate(columns):
        inside = inside & (a >= low[k]) & (a <= high[k])
        extent = int(high[k] - low[k]) + 1
        key, keys = key * extent + (a - low[k]), keys * extent + (rows[:, k] - low[k])
    return inside & np.isin(key, keys)


def count(binders: Binders, p: Predicate, data: Mapping[str, Data]) -> int:
    """`#{binders | p}`, exactly, for binders and a predicate without size names."""
    extents = [max(0, n.evaluate({})) for _, n in binders]
    if 0 in extents:
        return 0
    p = sets.simplify(p, binders)
    if not p.names and not p.relations:
        return prod(extents) if isinstance(p, And) else 0
    if not p.relations:
        pieces = symbolic(binders, p)
        if pieces is not None:
            return int(sum(polynomial.evaluate({}) for _, polynomial in pieces[:1]))
    free = [n for (index, _), n in zip(binders, extents, strict=True) if index not in p.names]
    bound = tuple(binder for binder in binders if binder[0] in p.names)
    return prod(free) * sum(rows for rows, _ in tables(bound, p, data))


def projected(binders: Binders, sums: Binders, p: Predicate, data: Mapping[str, Data]) -> int:
    """`#{binders | ∃ sums. p}`."""
    if not p.relations:
        from ..language.predicates import exists_all

        return count(binders, exists_all(sums, p), data)
    extents = [max(0, n.evaluate({})) for _, n in (*binders, *sums)]
    if 0 in extents:
        return 0
    free = [n.evaluate({}) for index, n in binders if index not in p.names]
    kept = [(index, n.evaluate({})) for index, n in binders if index in p.names]
    bound = tuple(binder for binder in (*binders, *sums) if binder[0] in p.names)
    seen: Any = np.zeros(0, np.int64)
    for rows, columns in tables(bound, p, data):
        key: Any = np.zeros(rows, np.int64)
        for index, n in kept:
            key = key * n + columns[index]
        seen = np.unique(np.concatenate([seen, key]))
    return prod(free) * len(seen)


def tables(
    binders: Binders, p: Predicate, data: Mapping[str, Data]
) -> Iterator[tuple[int, Columns]]:
    """The points of `{binders | p}` as columns of indices, some at a time."""
    ranges = {index: max(0, n.evaluate({})) for index, n in binders}
    yield from _join({}, 1, ranges, list(conjuncts(p)), data)


def _join(
    columns: Columns,
    rows: int,
    ranges: Mapping[str, int],
    waiting: list[Predicate],
    data: Mapping[str, Data],
) -> Iterator[tuple[int, Columns]]:
    waiting = list(waiting)
    while True:
        ready = [q for q in waiting if all(i in columns for i in q.names)]
        waiting = [q for q in waiting if q not in ready]
        for q in ready:
            kept = np.broadcast_to(holds(q, columns, data), (rows,))
            columns = {i: column[kept] for i, column in columns.items()}
            rows = int(kept.sum())
        if rows == 0:
            return
        missing = [i for i in ranges if i not in columns]
        if not missing:
            yield rows, columns
            return
        found = _determined(waiting, columns, missing, data)
        if found is None:
            break
        index, column = found
        column = np.broadcast_to(column, (rows,))
        kept = (column >= 0) & (column < ranges[index])
        columns = {**{i: c[kept] for i, c in columns.items()}, index: column[kept]}
        rows = int(kept.sum())
    index = missing[0]
    n = ranges[index]
    step = max(1, BLOCK // max(1, n))
    for start in range(0, rows, step):
        part = {i: np.repeat(c[start : start + step], n) for i, c in columns.items()}
        size = min(step, rows - start)
        part[index] = np.tile(np.arange(n), size)
        yield from _join(part, size * n, ranges, waiting, data)


def _determined(
    waiting: list[Predicate], columns: Columns, missing: list[str], data: Mapping[str, Data]
) -> tuple[str, Any] | None:
    for q in waiting:
        unknown = [i for i in missing if i in q.names]
        if len(unknown) != 1:
            continue
        (index,) = unknown
        if (value := solve(q, index)) is not None:
            return index, affine(value, columns)
        if isinstance(q, Related) and not q.relation.startswith(NOT):
            source, target = data[q.relation], q.arguments[-1]
            rest = frozenset().union(*(a.names for a in q.arguments[:-1]))
            if isinstance(source.type, IndexArray) and index not in rest:
                k = target.coefficient(index)
                if abs(k) == 1 and source.array.size:
                    places = [affine(a, columns) for a in q.arguments[:-1]]
                    shape = source.array.shape
                    inside = [np.clip(a, 0, n - 1) for a, n in zip(places, shape, strict=True)]
                    entry = source.array[tuple(inside)]
                    other = target - Affine.of(index) * k
                    # Where the place lies outside, the conjunct itself removes the row later.
                    return index, (entry - affine(other, columns)) * k
    return None


def affine(a: Affine, columns: Mapping[str, Any]) -> Any:
    """An affine expression on columns of indices."""
    total: Any = np.asarray(a.constant, np.int64)
    for name, k in a.terms:
        total = total + columns[name] * k
    return total


def holds(p: Predicate, columns: Columns, data: Mapping[str, Data]) -> Any:
    """Whether a predicate holds in each row."""
    match p:
        case Compare(op, left, right):
            difference = affine(right, columns) - affine(left, columns)
            return {"<": difference > 0, "≤": difference >= 0, "=": difference == 0}[op]
        case Related(relation, arguments):
            inside = data[relation.removeprefix(NOT)].holds([affine(a, columns) for a in arguments])
            return ~inside if relation.startswith(NOT) else inside
        case And(parts):
            result: Any = np.asarray(True)
            for part in parts:
                result = result & holds(part, columns, data)
            return result
        case Or(parts):
            result = np.asarray(False)
            for part in parts:
                result = result | holds(part, columns, data)
            return result
        case Exists(index, size, body):
            last = np.arange(max(0, size.evaluate({})))
            inner = {name: np.asarray(column)[..., None] for name, column in columns.items()}
            return np.any(holds(body, {**inner, index: last}, data) & (last == last), axis=-1)
    raise TypeError(p)
