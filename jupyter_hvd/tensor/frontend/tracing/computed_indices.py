"""Integers computed from data, such as `np.argmax(x)`, as indices: `x[p]` is `Σ j:n. kept(picks(p, j), x[j])`.

No index expression of the language is data. So an entry that data choose is a sum under an indicator, whose
derivative goes to the entry that is chosen and not through the choice, as JAX has it. That it is in range is known
before anything runs: of such a number it is known between which sizes it lies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from typing import Any

from ...language.affine import Affine
from ...language.function import find_function
from ...language.predicates import TRUE, Predicate, conj
from ...language.terms import (
    At,
    Binder,
    Binders,
    Call,
    Gen,
    Mul,
    Pair,
    Proj,
    Term,
    sums,
)
from ...language.types import Array, Product
from ..tracers import (
    Data,
    Index,
    Nature,
    NonAffineInteger,
    Value,
    data_of,
    is_index_array,
    kind,
    numbers_of,
    sought_of,
)
from .arithmetic import Arithmetic
from .arrays import Range, entry_aligned, range_of
from .packing import guarded


@dataclass(frozen=True)
class Indices:
    """An array of integers in brackets. If it is `written` as a literal, it is read at constants only."""

    dims: tuple[Affine, ...]
    entry: Callable[[Sequence[Affine]], Any]
    written: bool = False

    def at(self, axis: int, place: Affine) -> Any:
        """Return the integers at a position along an axis; one integer if that was the only axis."""
        dims = (*self.dims[:axis], *self.dims[axis + 1 :])
        made = Indices(dims, lambda at: self.entry((*at[:axis], place, *at[axis:])), self.written)
        return made if dims else made.entry(())


class Places(Arithmetic):
    """`x[np.argmax(y)]`, `x[np.argsort(y)]`: integers computed from data as indices."""

    # What classes that extend this one define
    mapped: Callable[..., Value]

    def _as_index_array(self, place: Any) -> Any:
        """Return an array of integers in brackets as such; other indices unchanged."""
        if not isinstance(place, Value) or not self.is_array(place):
            return place
        if numbers_of(place) != "int":
            raise self.error(
                "an array of floats or conditions in brackets makes a size that data decide",
                "keep every entry: `np.where(x > 0, x, 0)`; or index by an array of integers",
            )
        self._bounds_of(place)
        return self._computed_indices(place)

    def _computed_indices(self, place: Value) -> Indices:
        """Return an array of computed integers as indices."""
        named_place, nature = self.once(place, "place"), place.nature

        def entry(at: Sequence[Affine]) -> Index:
            return self.from_data(self.read(named_place, *at).of_nature(nature))

        return Indices(self.dims(place), entry)

    def integers_in(self, value: Any, what: str) -> Any:
        """Return an array of integers, by its sizes and entries; TensorError for other values. `what` names the function that
        takes it.
        """
        if is_index_array(value):
            return value.data
        if numbers_of(whole := self.whole(value)) != "int":
            raise self.error(f"{what} takes an array of integers", "pass the labels as one")
        return self._computed_indices(whole)

    def side_by_side_places(
        self, places: Sequence[Any]
    ) -> tuple[tuple[Affine, ...], list[Indices]]:
        """Return the broadcast sizes of arrays of integers, and each array at those sizes."""
        dims = self.broadcast_dims([tuple(p.dims) for p in places])
        return dims, [Indices(dims, partial(entry_aligned, p)) for p in places]

    def _bounds_of(self, place: Value) -> tuple[Affine, Affine]:
        """Return between which sizes an integer lies that data decide; TensorError if unknown."""
        if place.nature.within is None:
            if numbers_of(place) != "int":
                self.affine(place, "an index")  # which says what it is
            raise self.error(
                "an index that data decide, and nothing says in what range",
                "say so: `np.clip(k, 0, len(x) - 1)`",
            )
        return place.nature.within

    def clipped_within(self, x: Any, low: Any, high: Any, made: Any) -> Any:
        """Mark the result of `clip` on integers with the narrowest known range."""
        ends = [range_of(x), range_of(self._as_size(low)), range_of(self._as_size(high))]
        numbers = [numbers_of(value) for value in (x, low, high) if value is not None]
        if set(numbers) != {"int"} or not isinstance(made, Value):
            return made
        own, first, last = ends
        bottom = first[0] if first else own and own[0]
        below = last[1] if last else own and own[1]
        if bottom is None or below is None:
            return made.of_nature(replace(made.nature, numbers="int"))
        if first and last:
            self.looked("the upper end", "what `clip` leaves", first[0] - bottom, below - bottom)
        return self.ranging(made, bottom, below)

    def as_integer(self, place: Any) -> Any:
        """Return a number in brackets as an integer, also as an end of a slice; other indices unchanged."""
        if isinstance(place, slice):
            ends = (place.start, place.stop, place.step)
            return slice(*(self.as_integer(x) if numbers_of(x) == "int" else x for x in ends))
        if not isinstance(place, Value) or self.is_array(place):
            return place
        sized = self._as_size(place)
        return self.from_data(place) if sized is place else sized

    def from_data(self, number: Value) -> Index:
        """Return a number that is computed from data as an integer."""
        within = number.nature.within
        sought = NonAffineInteger(
            kind(number),
            lambda: number.term,
            lambda size, **_: self.lies_within(number, size),
            lambda: within and within[0],
            lambda: within and within[1] - 1,
            within=within,
            data=number,
        )
        return Index(self, sought=sought)

    def _on_axis(self, place: Index, size: Affine) -> NonAffineInteger:
        """Return an integer that is not affine as an index of an axis of this size, for reading."""
        place = self.from_either_end(place, size)
        if (data := data_of(place)) is not None:
            place = self.from_data(self.clamped(data, size))
        assert place.sought is not None
        place.sought.check(size)
        return place.sought

    def gathered(self, array: Value, *places: Index) -> Value:
        """`x[p, q]` at integers that are affine nowhere: a sum of one term, and so without an addition.

        `x[src[e]]` is `Σ j:n. [src(e, j)]·x[j]`, `x[a // k]` is `Σ j:n. Σ e:k. [k·j + e = a]·x[j]`, and where data decide p
        `x[p]` is `Σ j:n. kept(picks(p, j), x[j])`.
        """
        rows, binders, met, tests = array.term, list[Binder](), TRUE, list[Term]()
        for place in places:
            assert isinstance(rows.type, Array)
            size = rows.type.size
            sought = self._on_axis(place, size)
            j = Binder(self.name("j"), size)
            at = Affine.of(j.name)
            inner, p = sought.meet(at)
            binders += [j, *inner]
            met = conj(met, p)
            if sought.data is not None:
                tests.append(self.is_place(self.once(sought.data, "place"), at).term)
            rows = self._entry_term(rows, at)
        nature = Nature(numbers=array.nature.numbers, within=array.nature.within)
        term = self._sum_of(tuple(binders), met, tests, rows)
        return Value(self, term, array.layout).of_nature(nature)

    def clamped(self, place: Value, size: Affine) -> Value:
        """Return integers as indices of an axis of this size, for reading.

        If they may leave the axis, negative ones count from the end, and those beyond become its first or last index, as in
        JAX.
        """
        within = place.nature.within
        if numbers_of(place) != "int":
            return place
        if within is not None and not _beyond(within):
            return place
        last = self.mapped("minimum", self._from_start(place, size), Index(self, size - 1))
        made = self.mapped("maximum", last, 0)
        return self.ranging(made, Affine.of(0), size)

    def _from_start(self, place: Value, size: Affine) -> Value:
        """Return integers with negative ones counted from the end."""
        place, n = self.once(place, "place").of_nature(place.nature), Index(self, size)
        return self.chosen(self._compare("<", place, 0), self.computed("+", place, n), place)

    def from_either_end(self, place: Any, size: Affine) -> Any:
        """Return entries of index arrays, which may count from the end of an axis, as ones that count from its start; other
        indices unchanged.
        """
        if isinstance(place, Data) and place.name in self.signed:
            self.in_range(place, size)
            there = self.counting_from_start(place.name, place.offset, size)
            return self.as_numbers(place) if there is None else place.replaced(there)
        sought = sought_of(place)
        return place if sought is None or sought.from_end is None else sought.from_end(size)

    def storable(self, place: Value, size: Affine) -> Callable[[Affine], Value]:
        """Whether an index is the one to store at, 1 or 0.

        Where an integer may leave the axis, a negative one counts from the end, and beyond it nothing is stored, as in JAX.
        """
        at = self.once(self.clamped(place, size), "place")
        if at.term is place.term:
            self.lies_within(place, size)
            return lambda k: self.is_place(place, k)
        start = self.once(self._from_start(place, size), "start")
        inside = self.product(
            self._compare("<=", 0, start), self._compare("<", start, Index(self, size))
        )
        inside = self.once(inside, "inside")
        return lambda k: self.product(self.is_place(at, k), inside)

    def lies_within(self, place: Value, size: Affine) -> None:
        """Record that integers which data decide must be indices of an axis of this size."""
        low, below = self._bounds_of(place)
        k = self.name("k")
        with self._open_scopes([Binder(k, below - low)]):
            self.looked("the index", "the array", low + Affine.of(k), size)

    def is_place(self, place: Value, j: Affine) -> Value:
        """Return 1 if an integer, known to be an index of j's axis, equals j, else 0."""
        return Value(self, Call(find_function("picks"), (place.term, self.index_term(j))))

    def _sum_of(self, binders: Binders, p: Predicate, tests: Sequence[Term], e: Term) -> Term:
        """Return `Σ j…. [p]·kept(tests, e)`, for an array entry by entry, for a pair part by part."""
        match e.type:
            case Array(inner, _):
                i = self.name("i")
                return Gen(
                    i, inner, self._sum_of(binders, p, tests, self._entry_term(e, Affine.of(i)))
                )
            case Product():
                return Pair(*(self._sum_of(binders, p, tests, Proj(k, e)) for k in (0, 1)))
        if tests:
            e = Call(find_function("kept"), (reduce(Mul, tests), e))
        return sums(binders, guarded(p, e))

    def _entry_term(self, e: Term, a: Affine) -> Term:
        """Return an entry of an array term."""
        return self.read(Value(self, e), a).term if isinstance(e, Gen) else At(e, a)

    def equals(self, place: Index, k: Affine) -> Predicate:
        """Whether an integer is an affine expression."""
        return self.condition(self._compare("==", place, Index(self, k)))

    def is_at(self, place: Index, k: Affine) -> Value:
        """Return 1 if an integer, which is an index of k's axis, equals k, else 0."""
        if (data := data_of(place)) is not None:
            return self.is_place(data, k)
        return self.truth_of(self.equals(place, k))

    def checked(self, place: Index, size: Affine, from_end: bool = True) -> None:
        """Record that an integer must be an index of an axis of this size; negative ones may count from the end."""
        if place.sought is not None:
            place.sought.check(size, from_end=from_end)
        else:
            self.looked("the index", "the array", self.affine(place, "an index"), size)

    def in_range(self, places: Any, size: Affine, from_end: bool = True) -> None:
        """Record that all entries of an array of integers must be indices of an axis of this size."""
        binders = [Binder(self.name("e"), n) for n in places.dims]
        with self._open_scopes(binders) as (_, at):
            self.checked(places.entry(at), size, from_end)


def _beyond(within: Range) -> bool:
    """Whether integers within a range may count from the end, or be one beyond an axis, as `np.searchsorted(x, v)`."""
    low, below = within
    return (low.is_constant and low.constant < 0) or (bool(below.names) and below.constant > 0)
