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

    def at(self, axis: int, index: Affine) -> Any:
        """Return the integers at a position along an axis; one integer if that was the only axis."""
        dims = (*self.dims[:axis], *self.dims[axis + 1 :])
        made = Indices(dims, lambda at: self.entry((*at[:axis], index, *at[axis:])), self.written)
        return made if dims else made.entry(())


class Places(Arithmetic):
    """`x[np.argmax(y)]`, `x[np.argsort(y)]`: integers computed from data as indices."""

    # What classes that extend this one define
    mapped: Callable[..., Value]

    def _as_index_array(self, index: Any) -> Any:
        """Return an array of integers in brackets as such; other indices unchanged."""
        if not isinstance(index, Value) or not self.is_array(index):
            return index
        if numbers_of(index) != "int":
            raise self.error(
                "an array of floats or conditions in brackets makes a size that data decide",
                "keep every entry: `np.where(x > 0, x, 0)`; or index by an array of integers",
            )
        self._bounds_of(index)
        return self._computed_indices(index)

    def _computed_indices(self, integers: Value) -> Indices:
        """Return an array of computed integers as indices."""
        named_place, nature = self.once(integers, "place"), integers.nature

        def entry(at: Sequence[Affine]) -> Index:
            return self.from_data(self.read(named_place, *at).of_nature(nature))

        return Indices(self.dims(integers), entry)

    def integers_in(self, value: Any, subject: str) -> Any:
        """Return an array of integers as an object with sizes and entries.

        Args:
            subject: the function that takes it, for the error.

        Raises:
            TensorError: it is something else.
        """
        if is_index_array(value):
            return value.data
        if numbers_of(whole := self.whole(value)) != "int":
            raise self.error(f"{subject} takes an array of integers", "pass the labels as one")
        return self._computed_indices(whole)

    def side_by_side_places(
        self, index_arrays: Sequence[Any]
    ) -> tuple[tuple[Affine, ...], list[Indices]]:
        """Return the broadcast sizes of arrays of integers, and each array at those sizes."""
        dims = self.broadcast_dims([tuple(p.dims) for p in index_arrays])
        return dims, [Indices(dims, partial(entry_aligned, p)) for p in index_arrays]

    def _bounds_of(self, index: Value) -> tuple[Affine, Affine]:
        """Return a lower bound, and an exclusive upper one, of an integer that data decide.

        Raises:
            TensorError: they are unknown.
        """
        if index.nature.within is None:
            if numbers_of(index) != "int":
                self.affine(index, "an index")  # which says what it is
            raise self.error(
                "an index that data decide, and nothing says in what range",
                "say so: `np.clip(k, 0, len(x) - 1)`",
            )
        return index.nature.within

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

    def as_integer(self, index: Any) -> Any:
        """Return a number in brackets as an integer, also as an end of a slice; other indices unchanged."""
        if isinstance(index, slice):
            ends = (index.start, index.stop, index.step)
            return slice(*(self.as_integer(x) if numbers_of(x) == "int" else x for x in ends))
        if not isinstance(index, Value) or self.is_array(index):
            return index
        sized = self._as_size(index)
        return self.from_data(index) if sized is index else sized

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

    def _on_axis(self, index: Index, size: Affine) -> NonAffineInteger:
        """Return an integer that is not affine as an index of an axis of this size, for reading."""
        index = self.from_either_end(index, size)
        if (data := data_of(index)) is not None:
            index = self.from_data(self.clamped(data, size))
        assert index.sought is not None
        index.sought.check(size)
        return index.sought

    def gathered(self, array: Value, *indices: Index) -> Value:
        """Return `x[p, q]` at integers that are not affine, as a sum of one term, and so without an addition.

        `x[src[e]]` is `Σ j:n. [src(e, j)]·x[j]`; `x[a // k]` is `Σ j:n. Σ e:k. [k·j + e = a]·x[j]`; if data decide p,
        `x[p]` is `Σ j:n. kept(picks(p, j), x[j])`.
        """
        rows, binders, met, tests = array.term, list[Binder](), TRUE, list[Term]()
        for place in indices:
            assert isinstance(rows.type, Array)
            size = rows.type.size
            sought = self._on_axis(place, size)
            j = Binder(self.name("j"), size)
            at = Affine.of(j.name)
            inner, p = sought.meet(at)
            binders += [j, *inner]
            met = conj(met, p)
            if sought.data is not None:
                tests.append(self.position_indicator(self.once(sought.data, "place"), at).term)
            rows = self._entry_term(rows, at)
        nature = Nature(numbers=array.nature.numbers, within=array.nature.within)
        term = self._sum_of(tuple(binders), met, tests, rows)
        return Value(self, term, array.layout).of_nature(nature)

    def clamped(self, index: Value, size: Affine) -> Value:
        """Return integers as indices of an axis of this size, for reading.

        If they may leave the axis, negative ones count from the end, and those beyond become its first or last index, as in
        JAX.
        """
        within = index.nature.within
        if numbers_of(index) != "int":
            return index
        if within is not None and not _beyond(within):
            return index
        last = self.mapped("minimum", self._from_start(index, size), Index(self, size - 1))
        made = self.mapped("maximum", last, 0)
        return self.ranging(made, Affine.of(0), size)

    def _from_start(self, index: Value, size: Affine) -> Value:
        """Return integers with negative ones counted from the end."""
        index, n = self.once(index, "place").of_nature(index.nature), Index(self, size)
        return self.chosen(self._compare("<", index, 0), self.computed("+", index, n), index)

    def from_either_end(self, index: Any, size: Affine) -> Any:
        """Return an index array's entry counted from the start of an axis, if it may count from its end.

        Other indices are returned unchanged.
        """
        if isinstance(index, Data) and index.name in self.signed:
            self.in_range(index, size)
            there = self.counting_from_start(index.name, index.offset, size)
            return self.as_numbers(index) if there is None else index.replaced(there)
        sought = sought_of(index)
        return index if sought is None or sought.from_end is None else sought.from_end(size)

    def storable(self, index: Value, size: Affine) -> Callable[[Affine], Value]:
        """Return a function that says, by 1 or 0, whether a position is the one to store at.

        If the integer may leave the axis, a negative one counts from the end, and beyond it nothing is stored, as in JAX.
        """
        at = self.once(self.clamped(index, size), "place")
        if at.term is index.term:
            self.lies_within(index, size)
            return lambda k: self.position_indicator(index, k)
        start = self.once(self._from_start(index, size), "start")
        inside = self.product(
            self._compare("<=", 0, start), self._compare("<", start, Index(self, size))
        )
        inside = self.once(inside, "inside")
        return lambda k: self.product(self.position_indicator(at, k), inside)

    def lies_within(self, index: Value, size: Affine) -> None:
        """Record that integers which data decide must be indices of an axis of this size."""
        low, below = self._bounds_of(index)
        k = self.name("k")
        with self._open_scopes([Binder(k, below - low)]):
            self.looked("the index", "the array", low + Affine.of(k), size)

    def position_indicator(self, index: Value, j: Affine) -> Value:
        """Return 1 if an integer, known to be an index of j's axis, equals j, else 0."""
        return Value(self, Call(find_function("picks"), (index.term, self.index_term(j))))

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

    def equals(self, index: Index, k: Affine) -> Predicate:
        """Return the predicate that an integer equals an affine expression."""
        return self.condition(self._compare("==", index, Index(self, k)))

    def index_indicator(self, index: Index, k: Affine) -> Value:
        """Return 1 if an integer, which is an index of k's axis, equals k, else 0."""
        if (data := data_of(index)) is not None:
            return self.position_indicator(data, k)
        return self.truth_of(self.equals(index, k))

    def checked(self, index: Index, size: Affine, from_end: bool = True) -> None:
        """Record that an integer must be an index of an axis of this size; negative ones may count from the end."""
        if index.sought is not None:
            index.sought.check(size, from_end=from_end)
        else:
            self.looked("the index", "the array", self.affine(index, "an index"), size)

    def in_range(self, indices: Any, size: Affine, from_end: bool = True) -> None:
        """Record that all entries of an array of integers must be indices of an axis of this size."""
        binders = [Binder(self.name("e"), n) for n in indices.dims]
        with self._open_scopes(binders) as (_, at):
            self.checked(indices.entry(at), size, from_end)


def _beyond(within: Range) -> bool:
    """Whether integers within a range may count from the end, or be one beyond an axis, as `np.searchsorted(x, v)`."""
    low, below = within
    return (low.is_constant and low.constant < 0) or (bool(below.names) and below.constant > 0)
