"""The entries of a sparse Jacobian, and from which entries of which arrays each is computed: all that is known
before any value is.

For each tangent (`derivative/tangents`) there is a list of the index tuples `(g…, h…)` at which its derivative by the entry
h of the parameter may be other than zero. It follows from the lists before it: `⊞g Σs. [p]·T[a]·X[b]` has a
*point* for each `(g, s, h)` at which `p` holds and T's list has `(a, h)`. The points are joined by `cost/counting`, so the work
follows their number. A point's value is an entry of T times one of X, and the points of one entry are added up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from math import prod
from typing import Any

import numpy as np

from ..cost.counting import (
    Columns,
    RelationData,
    affine_values,
    holds_in_rows,
    point_tables,
    sort_unique,
)
from ..derivative.tangents import Addend, Linearization, tangent_addends
from ..language.affine import Affine
from ..language.errors import TensorError
from ..language.predicates import TRUE, And, Exists, Or, Predicate, Related, conj
from ..language.terms import Binder, Binders, in_ranges, index_names, number_binders
from ..language.types import TupleSet
from ..language.units import in_bytes
from ..ssa.program import Factor, Rhs, pointwise
from .liveness import restrict_to_live
from .specialize import at_sizes

LARGEST = np.iinfo(np.int64).max
TUPLES = "∂"  # begins the name of a tangent's list, which no relation's does
POINT = 96  # bytes on the host for a point: its columns, keys and what sorting takes


@dataclass(frozen=True, eq=False)
class Entries:
    """Index tuples within a box, in lexicographic order: one column of int64 for each dimension."""

    columns: tuple[Any, ...]
    shape: tuple[int, ...]
    count: int

    @cached_property
    def keys(self) -> Any:
        """The position of each tuple in the box, in order."""
        return box_positions(self.columns, self.shape, self.count)


@dataclass(frozen=True, eq=False)
class Points:
    """What an addend computes: entry `position[q]` of the tangent `source` times the entry `value` at `columns[…][q]`, added to
    entry `slot[q]`. `position` or `slot` is None where it is q; `source` is None where the entry is that of the
    identity, 1. `binders` are the indices that the columns are of.
    """

    source: str | None
    position: Any
    value: Factor | None
    binders: Binders
    columns: Columns
    slot: Any
    count: int

    def points_inside(self, entries: Any) -> Any:
        """Return which points are added to the entries that a mask selects."""
        return entries if self.slot is None else entries[self.slot]

    def source_positions(self, entries: Any) -> Any:
        """Return the source's entries that are read for the entries that a mask selects, in the order of the points."""
        at = self.points_inside(entries)
        return np.flatnonzero(at) if self.position is None else self.position[at]


@dataclass(frozen=True, eq=False)
class Stage:
    """How the entries of one tangent's Jacobian are computed."""

    name: str
    entries: Entries
    addends: tuple[Points, ...]

    @property
    def sources(self) -> tuple[str, ...]:
        """The tangents that it is computed from."""
        return tuple(points.source for points in self.addends if points.source is not None)


def build_stages(
    linear: Linearization, sizes: Mapping[str, int], data: Mapping[str, RelationData], memory: float
) -> tuple[Stage, ...]:
    """Return the stages of a Jacobian at the sizes of a call; the last one is the Jacobian.

    Raises TensorError if the index tuples take more than `memory` bytes.
    """
    program = restrict_to_live(at_sizes(linear.program, sizes))
    argument = tuple([max(0, n.evaluate(sizes)) for n in linear.argument])
    kept = {s.name: s.rhs for s in program.statements}
    known = frozenset(linear.tangents)
    builder = _Builder(argument, data, memory)
    made: dict[str, Stage] = {}
    for x in linear.tangents:
        if x != linear.seed and x in kept:
            made[x] = builder.add_stage(x, kept[x], tangent_addends(kept[x], known) or (), made)
    output = program.output
    assert isinstance(output, str)
    if output not in made:  # the parameter itself, or what does not depend on it
        itself = Addend((), TRUE, output, pointwise(kept[output].gens))
        parts = (itself,) if output == linear.seed else ()
        made[output] = builder.add_stage(output, kept[output], parts, made)
    return tuple(made.values())


@dataclass(frozen=True, eq=False)
class _Joined:
    """The points of an addend before they are ordered. `position` is in the source's list, None for the point's own position.
    If there is `like`, the points are all of its entries.
    """

    rows: int
    columns: Columns
    argument: list[Any]
    position: Any = None
    like: Entries | None = None

    def entry_positions(self, names: Sequence[str], shape: tuple[int, ...]) -> Any:
        """Return the positions of the entries to which the points are added."""
        if self.like is not None:
            return self.like.keys
        return box_positions([*(self.columns[i] for i in names), *self.argument], shape, self.rows)

    def make_entries(self, names: Sequence[str], shape: tuple[int, ...], keys: Any) -> Entries:
        """Return the entries if there is one point for each, in order: their columns are the points', so that the kernel has
        one array.
        """
        if self.like is not None:
            return self.like
        return _make_entries(shape, keys, (*(self.columns[i] for i in names), *self.argument))


def _make_entries(
    shape: tuple[int, ...], keys: Any, columns: tuple[Any, ...] | None = None
) -> Entries:
    """Return entries from their positions in a box, with the columns if they exist already."""
    if columns is None:
        columns = tuple(np.unravel_index(keys, shape)) if shape else ()
    made = Entries(columns, shape, len(keys))
    made.__dict__["keys"] = keys
    return made


@dataclass
class _Builder:
    """Makes stages, and adds up the bytes of their points."""

    argument: tuple[int, ...]
    data: Mapping[str, RelationData]
    memory: float
    bytes: int = 0

    def add_stage(
        self, name: str, rhs: Rhs, parts: Sequence[Addend], made: Mapping[str, Stage]
    ) -> Stage:
        """Return the stage of one tangent, from its addends and the earlier stages."""
        binders = tuple(rhs.gens)
        shape = (*_extents_of(binders), *self.argument)
        if prod(map(int, shape)) > LARGEST:
            raise TensorError(f"a box of {' × '.join(map(str, shape))} entries has more than 2⁶³")
        names = index_names(binders)
        found = [self._addend_points(binders, part, made.get(part.tangent)) for part in parts]
        keys = [joined.entry_positions(names, shape) for joined in found]
        distinct = _merge_keys(keys)
        same = [joined for joined, key in zip(found, keys, strict=True) if key is distinct]
        entries = (
            same[0].make_entries(names, shape, distinct) if same else _make_entries(shape, distinct)
        )
        points = tuple(
            _order_points(binders, part, key, distinct, part.tangent in made, joined)
            for part, key, joined in zip(parts, keys, found, strict=True)
        )
        return Stage(name, entries, points)

    def _addend_points(self, binders: Binders, part: Addend, source: Stage | None) -> _Joined:
        """Return the points of an addend."""
        every = (*binders, *part.sums)
        if source is None:
            rows, columns = self._gather_blocks(
                point_tables(every, part.mask, self.data), index_names(every)
            )
            return _Joined(rows, columns, [affine_column(a, columns, rows) for a in part.indices])
        of = source.entries
        inner = len(part.indices)
        if not part.sums and part.indices == pointwise(binders):
            columns = dict(zip(index_names(binders), of.columns[:inner], strict=True))
            kept = holds_at_points(part.mask, binders, columns, of.count, self.data)
            for (index, _), here, there in zip(
                binders, _extents_of(binders), of.shape[:inner], strict=True
            ):
                if here < there:  # only the first entries of the source are read
                    kept = kept & (columns[index] < here)
            if kept.all():
                like = of if of.shape[:inner] == _extents_of(binders) else None
                return _Joined(of.count, columns, [*of.columns[inner:]], like=like)
            chosen = np.flatnonzero(kept)
            self._charge_memory(len(chosen))
            columns = {i: c[chosen] for i, c in columns.items()}
            return _Joined(len(chosen), columns, [c[chosen] for c in of.columns[inner:]], chosen)
        own = number_binders("h·", map(Affine.of, self.argument))
        name = TUPLES + part.tangent
        arguments = (*part.indices, *map(Affine.of, index_names(own)))
        rows_ = np.stack(of.columns, axis=1) if of.columns else np.zeros((of.count, 1), np.int64)
        listed = RelationData(TupleSet(max(1, len(arguments))), rows_)
        related = Related(name, arguments or (Affine.of(0),))
        found = point_tables((*every, *own), conj(part.mask, related), {**self.data, name: listed})
        rows, columns = self._gather_blocks(found, index_names((*every, *own)))
        at = [columns[i] for i in index_names(own)]
        read = [affine_column(a, columns, rows) for a in part.indices]
        keys = box_positions([*read, *at], of.shape, rows)
        return _Joined(rows, columns, at, np.searchsorted(of.keys, keys))

    def _gather_blocks(
        self, found: Iterable[tuple[int, Columns]], names: Sequence[str]
    ) -> tuple[int, Columns]:
        """Join blocks of points."""
        total, blocks = 0, []
        for rows, columns in found:
            self._charge_memory(rows)
            total += rows
            blocks.append([np.broadcast_to(columns[i], (rows,)) for i in names])
        joined = [
            np.concatenate([b[k] for b in blocks]) if blocks else np.zeros(0, np.int64)
            for k in range(len(names))
        ]
        return total, dict(zip(names, joined, strict=True))

    def _charge_memory(self, points: int) -> None:
        """Count the memory of points; raise TensorError if there is not enough."""
        self.bytes += POINT * points
        if self.bytes > self.memory:
            raise TensorError(
                f"the index tuples of this Jacobian take more than {in_bytes(self.memory)}, the memory that is available",
                "differentiate by fewer entries at a time, or use `.jvp` and `.vjp`",
            )


def _order_points(
    binders: Binders,
    part: Addend,
    key: Any,
    distinct: Any,
    has_source: bool,
    joined: _Joined,
) -> Points:
    """Return the points of an addend, in the order of the entries to which they are added."""
    binders = (*binders, *part.sums)
    columns = {i: joined.columns[i] for i in index_names(binders)}
    position = joined.position
    slot = None
    if key is not distinct and not np.array_equal(key, distinct):
        slot = np.searchsorted(distinct, key)
    if slot is not None and np.any(slot[1:] < slot[:-1]):
        order = np.argsort(slot, kind="stable")
        slot, columns = slot[order], {i: c[order] for i, c in columns.items()}
        position = order if position is None else position[order]
    source = part.tangent if has_source else None
    position = position if has_source else None
    return Points(source, position, part.value, binders, columns, slot, joined.rows)


def upper_half(made: Sequence[Stage]) -> tuple[Stage, ...]:
    """Return the stages for the entries on and above the diagonal of a symmetric Jacobian."""
    last = made[-1].entries
    rows, columns = np.divmod(last.keys, max(1, prod(last.shape[: len(last.shape) // 2])))
    needed = _needed_entries(made, rows <= columns)
    return tuple(_reduce_stage(stage, needed) for stage in made if stage.name in needed)


def _needed_entries(made: Sequence[Stage], wanted: Any) -> dict[str, Any]:
    """Return which entries of each stage are read for the wanted entries of the last one."""
    needed = {made[-1].name: wanted}
    counts = {stage.name: stage.entries.count for stage in made}
    for stage in reversed(made):
        if stage.name not in needed:
            continue
        for points in stage.addends:
            if points.source is not None:
                read = needed.setdefault(points.source, np.zeros(counts[points.source], bool))
                read[points.source_positions(needed[stage.name])] = True
    return needed


def _reduce_stage(stage: Stage, needed: Mapping[str, Any]) -> Stage:
    """Return a stage with only the needed entries and their points."""
    here = needed[stage.name]
    if all(needed[x].all() for x in (stage.name, *stage.sources)):
        return stage
    chosen: dict[int, Any] = {}  # columns are shared among stages and addends

    def entries_of(column_: Any) -> Any:
        if id(column_) not in chosen:
            chosen[id(column_)] = column_[here]
        return chosen[id(column_)]

    entries = stage.entries
    columns = tuple(map(entries_of, entries.columns))
    kept = _make_entries(entries.shape, entries.keys[here], columns)
    addends = []
    for points in stage.addends:
        at = points.points_inside(here)
        position = points.position
        if points.source is not None:
            read = needed[points.source]
            position = _renumber_positions(points.source_positions(here), read)
        slot = None if points.slot is None else _renumber_positions(points.slot[at], here)
        moved = {
            i: entries_of(c) if points.slot is None else c[at] for i, c in points.columns.items()
        }
        addends.append(
            Points(
                points.source,
                position,
                points.value,
                points.binders,
                moved,
                slot,
                int(np.count_nonzero(at)),
            )
        )
    return Stage(stage.name, kept, tuple(addends))


def _renumber_positions(at: Any, kept: Any) -> Any:
    """Return positions among the kept entries; None if these are all entries, in order."""
    found = (np.cumsum(kept) - 1)[at]
    every = len(found) == np.count_nonzero(kept) and np.array_equal(found, np.arange(len(found)))
    return None if every else found


def affine_column(a: Affine, columns: Columns, rows: int) -> Any:
    """Return the value of an affine expression at each point; for a name, its column."""
    return columns[a.name] if a.name else np.broadcast_to(affine_values(a, columns), (rows,))


def box_positions(columns: Sequence[Any], shape: Sequence[int], rows: int) -> Any:
    """Return the flat position in a box of each index tuple."""
    return reduce(
        lambda key, pair: key * pair[1] + pair[0],
        zip(columns, shape, strict=True),
        np.zeros(rows, np.int64),
    )


def _merge_keys(keys: Sequence[Any]) -> Any:
    """Return the distinct keys of several lists, in order."""
    if not keys:
        return np.zeros(0, np.int64)
    first, *rest = keys
    if np.all(first[1:] > first[:-1]) and all(k is first or np.array_equal(k, first) for k in rest):
        return first
    return sort_unique(np.concatenate([*keys]))


def _extents_of(binders: Binders) -> tuple[int, ...]:
    """Return the sizes of binders with known sizes."""
    return tuple([max(0, n.evaluate({})) for n in in_ranges(binders)])


def holds_at_points(
    p: Predicate, binders: Binders, columns: Columns, rows: int, data: Mapping[str, RelationData]
) -> Any:
    """Whether a predicate holds at each of some points. A quantifier over relations is looked up among the tuples for
    which it holds.
    """
    match p:
        case And(parts):
            found = (holds_at_points(q, binders, columns, rows, data) for q in parts)
            return reduce(np.logical_and, found, np.ones(rows, bool))
        case Or(parts):
            found = (holds_at_points(q, binders, columns, rows, data) for q in parts)
            return reduce(np.logical_or, found, np.zeros(rows, bool))
        case Exists() if p.relations:
            free = tuple(Binder(i, n) for i, n in binders if i in p.names)
            names, shape = index_names(free), _extents_of(free)
            keys = [
                box_positions([c[i] for i in names], shape, count)
                for count, c in point_tables(free, p, data)
            ]
            here = box_positions([columns[i] for i in names], shape, rows)
            return np.isin(here, np.concatenate(keys)) if keys else np.zeros(rows, bool)
    return np.broadcast_to(holds_in_rows(p, columns, data), (rows,))
