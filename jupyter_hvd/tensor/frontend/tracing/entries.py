"""Entries: of arrays, tuples, relations and index arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from ...language.affine import Affine
from ...language.predicates import Predicate, Related, compare, disj
from ...language.terms import Add, Const, Gen, Guard, Term
from ...language.types import REAL, Array, IndexArray
from ..captured_data import OnHost
from ..tracers import (
    Condition,
    Data,
    Index,
    Value,
    is_tuple,
    lists_of,
    numbers_of,
    several_cases,
    sought_of,
    tuples_of,
)
from .arrays import integers_written, nature_of
from .loops import Iteration
from .subscripts import Changed, Subscripts


class Entries(Subscripts):
    """`x[i]`, `t[0]`, `R[i, j]`, `x[src[e]]`, and arrays that are written out."""

    # What classes that extend this one define
    selection: Callable[[Any, tuple[Any, ...]], Any]
    listed_from: Callable[[Any], Any]
    no_list: Callable[[Any], Any]
    window: Callable[[Any, slice, tuple[Any, ...]], Any]
    grid: Callable[[bool, tuple[Any, ...]], Any]
    side_by_side: Callable[[Any, tuple[Any, ...]], Any]

    def _container_part(self, container: Any, keys: tuple[Any, ...]) -> Any:
        """Return a part of a container: `params["w"]`, `layers[0]`, `(a, b)[1:]`."""
        key, *rest = keys
        if self.memory.has_changed(container):
            raise self.error(
                "a part of this has been changed by another name since",
                "use one name, or take a copy before: `e = d.copy()`",
            )
        if isinstance(container, dict):
            if not isinstance(key, str | int) or key not in container:
                raise self.error(f"no part {key!r}", f"there are {', '.join(map(repr, container))}")
            part = container[key]
        elif isinstance(key, slice):
            part = container[key]
        elif isinstance(container, list) and not isinstance(key, int):
            return self.entry_of(self.whole(container), keys)
        else:
            part = self._selection(tuple(container), key)
        return self.entry_of(part, tuple(rest)) if rest else part

    def entry_at(self, value: Any, a: Affine) -> Any:
        """Return `value[a]`."""
        return self._entry(value, Index(self, a))

    def _structure(self, value: Any) -> Any:
        """Return a value with its containers as Python objects; subclasses override this."""
        return value

    def entry_of(self, array: Any, indices: tuple[Any, ...]) -> Any:
        """Return `array[p][q]…`, axis by axis."""
        for place in indices:
            array = self._entry(array, place)
        return array

    def array(self, k: int, entries: list[Any]) -> Any:
        """Return `[a, b, c]`, as `⊞ i:3. [i=0]·a + [i=1]·b + [i=2]·c`; called by rewritten code."""
        self.at(k)
        return self.written_out(entries)

    def written_out(self, entries: list[Any]) -> Any:
        """Return a literal list as an array if all entries have one shape, else as a list of parts."""
        parts = (isinstance(e, dict | list) or (isinstance(e, Value) and e.data) for e in entries)
        if not entries or any(parts):
            return entries
        packed = [self.pack(entry) for entry in entries]
        types = {term.type for term, _ in packed}
        if len(types) > 1 or any(layout and len(layout) == 1 for _, layout in packed):
            return entries
        index = self.name("k")
        body, layout = packed[0]
        body = Guard(compare("=", index, 0), body)
        covered = compare("=", index, 0)
        for j, (term, _) in enumerate(packed[1:], 1):
            here = compare("=", index, j)
            body = (
                Add(body, Guard(here, term))
                if term.type == REAL
                else self._entrywise(body, Guard(here, term), covered, here)
            )
            covered = disj(covered, here)
        made = Value(self, Gen(index, Affine.of(len(entries)), body), layout)
        made.written = entries
        shares = frozenset[tuple[str, int]]().union(*map(self.memory.of, entries))
        lists = 1 + min(map(lists_of, entries))
        return made.of_nature(replace(nature_of(entries), lists=lists, shares=shares))

    def listed(self, value: Any) -> Any:
        """Return the entries of a literal list, such as axes or a shape; other values unchanged."""
        if isinstance(value, Value) and value.written is not None:
            return value.written
        if isinstance(value, tuple | list):
            return [self.listed(part) for part in value]
        return value

    def entry(self, k: int, array: Any, *indices: Any) -> Any:
        """Return `x[i]`, `A[i, j]`, `pair[0]`, `R[i, j]`, `x[src[e]]`; called by rewritten code."""
        self.at(k)
        if len(indices) == 1 and isinstance(indices[0], tuple):
            indices = indices[0]
        indices = tuple(
            self.no_list(self.listed_from(p)) if isinstance(p, Iteration) else self.as_integer(p)
            for p in indices
        )
        if (j := next((j for j, p in enumerate(indices) if several_cases(p)), None)) is not None:
            return self._entry_by_cases(k, array, indices, j)
        array = self._structure(array)
        if isinstance(indices[0], slice) and any(
            map(self._indices_decide, (indices[0].start, indices[0].stop))
        ):
            return self.window(array, indices[0], indices[1:])
        if isinstance(array, dict | list) or (isinstance(array, tuple) and len(indices) == 1):
            return self._container_part(array, indices)
        if type(array).__name__ in ("RClass", "CClass"):
            return self.side_by_side(array, indices)
        if type(array).__name__ in ("MGridClass", "OGridClass"):
            return self.grid(type(array).__name__ == "OGridClass", indices)
        if len(indices) == 1 and (part := _sliced_list(array, indices[0])) is not None:
            return self.written_out(part)
        if isinstance(array, Changed):
            return self.changes(array, indices)
        if (chosen := self.selection(array, indices)) is not None:
            return chosen
        if len(indices) > 1 and any(map(self._chooses, indices)):
            raise self.error(
                "conditions that choose along one axis of several",
                "turn the array so that this is its first: `A.T[p]`; or keep every entry: `np.where(p, A, 0)`",
            )
        if any(map(self._takes_many, indices)):
            return self.subscript(array, indices)
        for place in indices:
            array = self._entry(array, place)
        return array

    def _entry_by_cases(self, k: int, array: Any, indices: tuple[Any, ...], j: int) -> Any:
        """Return an entry whose j-th index is an integer with several cases."""
        array = self.once(array) if isinstance(array, Value) else array
        return self.case_by_case(
            indices[j],
            lambda a: self.entry(k, array, *indices[:j], Index(self, a), *indices[j + 1 :]),
        )

    def _chooses(self, index: Any) -> bool:
        """Whether an index is an array of conditions."""
        return self.is_array(index) and numbers_of(index) == "bool"

    def _entry(self, array: Any, index: Any) -> Any:
        """Return the entry of a value along its first axis."""
        if isinstance(array, tuple) or is_tuple(array):
            return self._selection(array, index)
        if (tuples := tuples_of(array)) is not None:
            raise self.error("a set of tuples has no entries", f"test `(i, j) in {tuples.name}`")
        if not isinstance(array, Value):
            array = Value(self, *self.pack(array))
        if not isinstance(array.type, Array):
            raise self.error(
                "this reads an entry of a scalar",
                "it has fewer dimensions than it has indices here",
            )
        size = array.type.size
        index = self.as_integer(index)
        cases = self.by_cases(index)
        if cases is None:
            cases = self.from_the_end(index, size)
        if cases is not None:
            return self.case_by_case(cases, lambda a: self.entry_within(array, a))
        if sought_of(index) is not None:
            return self.gathered(array, index)
        return self.entry_within(array, self.from_start(index, size))

    def _selection(self, value: Any, index: Any) -> Any:
        """Return a tuple's part at a constant index."""
        parts = value if isinstance(value, tuple) else self.parts(value)
        if isinstance(index, bool) or not isinstance(index, int):
            raise self.error("a tuple's part is chosen by a constant", "write `t[0]` or unpack it")
        if not -len(parts) <= index < len(parts):
            raise self.error(f"part {index} of a tuple of {len(parts)}")
        return parts[index]

    def entry_of_data(self, data: Data, a: Affine) -> Any:
        """Return a row of an array of integers or conditions that is a parameter; for one axis, an integer or a condition."""
        if len(data.dims) > 1:
            step = OnHost("getitem", (a.constant,)) if a.is_constant else None
            return data.part(data.dims[1:], lambda at: (a, *at), step).array
        if isinstance(data.type, IndexArray):
            return data.entry((a,))
        return Condition(self, self.related(data, (a,)))

    def related(self, data: Data, at: Sequence[Affine]) -> Predicate:
        """Return the predicate `R(…)` at these indices, after those that `data` already has."""
        related = Related(data.name, data.places(at))
        self.note(_probe(related))
        return related


def _sliced_list(value: Any, index: Any) -> list[Any] | None:
    """Return `sizes[:-1]` of a literal list of integers; None for other values or indices."""
    ends = (index.start, index.stop, index.step) if isinstance(index, slice) else ("",)
    if (written := integers_written(value)) and all(x is None or type(x) is int for x in ends):
        return list(written[index])
    return None


def _probe(related: Related) -> Term:
    """Return a term that stands for a relation's read in the table of source locations."""
    return Guard(related, Const(1))
