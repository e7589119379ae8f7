"""Entries: of arrays, tuples, relations and index arrays."""

from __future__ import annotations

from typing import Any

from ...language.affine import Affine
from ...language.predicates import Predicate, Related, compare, conj, disj
from ...language.terms import Add, At, Const, Gen, Guard, Pair, Proj, Sum, Term
from ...language.types import REAL, Array, Product, Relation, TupleSet
from ..tracers import Condition, Data, IndexEntry, Value
from .arithmetic import Arithmetic
from .traced import Lookup


class Entries(Arithmetic):
    """`x[i]`, `t[0]`, `R[i, j]`, `x[src[e]]`, and arrays that are written out."""

    def array(self, k: int, entries: list[Any]) -> Value:
        """`[a, b, c]` is `⊞ i:3. [i=0]·a + [i=1]·b + [i=2]·c`, whose additions are free."""
        self.at(k)
        if not entries:
            raise self.error("an empty list has no type", "use `[0 for i in range(n)]`")
        packed = [self.pack(entry) for entry in entries]
        index = self.name("k")
        types = {term.type for term, _ in packed}
        if len(types) > 1:
            raise self.error("this list's entries have different shapes")
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
        return Value(self, Gen(index, Affine.of(len(entries)), body), layout)

    def entry(self, k: int, array: Any, *places: Any) -> Any:
        """`x[i]`, `A[i, j]`, `pair[0]`, `R[i, j]`, `x[src[e]]`."""
        self.at(k)
        places = places[0] if len(places) == 1 and isinstance(places[0], tuple) else places
        for place in places:
            array = self._entry(array, place)
        return array

    def _entry(self, array: Any, place: Any) -> Any:
        if isinstance(array, tuple) or (
            isinstance(array, Value) and isinstance(array.type, Product)
        ):
            return self._selection(array, place)
        if isinstance(array, Data):
            return self._data_entry(array, place)
        if not isinstance(array, Value):
            array = Value(self, *self.pack(array))
        if not isinstance(array.type, Array):
            raise self.error(
                "this reads an entry of a scalar",
                "it has fewer dimensions than it has indices here",
            )
        size = array.type.size
        if isinstance(place, IndexEntry):
            return self._gathered(array, place, size)
        a = self.affine(place, "an index")
        if a.is_constant and a.constant < 0 and isinstance(place, int):
            a = size + a.constant  # Python's x[-1]
        return Value(self, At(array.term, a), array.layout)

    def _gathered(self, array: Value, place: IndexEntry, size: Affine) -> Value:
        """`x[src[e]]` is `Σ j:n. [src(e, j)]·x[j]`, which has one term: no addition."""
        here = conj(*self.conditions)
        self.lookups.append(
            Lookup(
                place.relation,
                place.arguments,
                place.offset,
                size,
                tuple(self.binders),
                here,
                self.place,
            )
        )
        index = self.name("j")
        at = Affine.of(index)
        return Value(
            self, self._sum_of(index, size, place.equals(at), At(array.term, at)), array.layout
        )

    def _sum_of(self, index: str, size: Affine, p: Predicate, e: Term) -> Term:
        match e.type:
            case Array(inner, _):
                i = self.name("i")
                return Gen(i, inner, self._sum_of(index, size, p, At(e, Affine.of(i))))
            case Product():
                return Pair(
                    self._sum_of(index, size, p, Proj(0, e)),
                    self._sum_of(index, size, p, Proj(1, e)),
                )
        return Sum(index, size, Guard(p, e))

    def _selection(self, value: Any, place: Any) -> Any:
        parts = value if isinstance(value, tuple) else self.parts(value)
        if isinstance(place, bool) or not isinstance(place, int):
            raise self.error("a tuple's part is chosen by a constant", "write `t[0]` or unpack it")
        if not -len(parts) <= place < len(parts):
            raise self.error(f"part {place} of a tuple of {len(parts)}")
        return parts[place]

    def _data_entry(self, data: Data, place: Any) -> Any:
        if isinstance(data.type, TupleSet):
            raise self.error("a set of tuples has no entries", f"test `(i, j) in {data.name}`")
        arguments = (*data.arguments, self.affine(place, "an index"))
        if len(arguments) < len(data.type.dims):
            return Data(self, data.name, data.type, arguments)
        if isinstance(data.type, Relation):
            related = Related(data.name, arguments)
            self.note(_probe(related))
            return Condition(self, related)
        return IndexEntry(self, data.name, arguments, Affine.of(0))


def _probe(related: Related) -> Term:
    """A term that stands for a relation's place in the table of places."""
    return Guard(related, Const(1))
