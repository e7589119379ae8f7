"""`x[x > 0]`: its size depends on data, so it is not an array of the language. What is computed of it entry by entry
is computed of all of them, and what is made of it at the end, a sum, a mean, takes those that are chosen.

Functions see 1 where nothing is chosen, so that neither they nor their derivatives make what is no number there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...language.affine import Affine
from ...language.predicates import Predicate, compare, conj
from .. import forms
from ..tracers import Index, Pairs, Selected, Value, as_truth, is_index_array, numbers_of, sought_of
from .arrays import at_most
from .statements import Statements
from .subscripts import STORED_IN_SLICE, Changed


class Selections(Statements):
    """Parts of arrays that conditions on data choose."""

    # What classes that extend this one define
    scalar_of: Callable[[Affine], Any]
    ramp: Callable[[Affine], Value]

    def selection(self, array: Any, indices: tuple[Any, ...]) -> Selected | None:
        """Return `x[p]` for an array of conditions p over the first axes of x, or `x[i, j]` at pairs of positions; None for
        other indices.
        """
        if any(isinstance(place, Selected) and place.pairs for place in indices):
            return self._at_pairs(array, indices)
        if isinstance(indices[0], Selected) and numbers_of(indices[0].array) == "int":
            chosen, rest = indices[0], indices[1:]
            at = chosen.array if chosen.integers is None else chosen.integers
            return self._chosen_with(chosen, self.subscript(self.whole(array), (at, *rest)))
        if isinstance(array, Selected) and len(indices) > 1 and indices[0] == slice(None):
            lead = [slice(None)] * len(self.dims(array.mask))
            part = self.subscript(array.array, (*lead, *indices[1:]))
            return self._chosen_with(array, part)
        if len(indices) != 1 or not self.is_array(indices[0]) or numbers_of(indices[0]) != "bool":
            return None
        if not isinstance(array, Value):
            return None
        test = self.whole(indices[0])
        array, mask = self.once(self.whole(array)), self.once(test, "chosen")
        own, taken = self.dims(array), self.dims(mask)
        if len(taken) > len(own):
            raise self.error(f"{len(taken)} dimensions of conditions for an array of {len(own)}")
        for mine, theirs in zip(own, taken, strict=False):
            self.same(mine, theirs)
        return Selected(self, array, mask, test.term)

    def window(self, array: Any, bounds: slice, rest: tuple[Any, ...]) -> Any:
        """Return `x[max(0, i - k):min(n, i + k)]`, whose ends indices decide: the entries whose position satisfies a
        condition.
        """
        if isinstance(array, Changed):
            raise self.error(*STORED_IN_SLICE)
        whole = self.whole(array)
        if rest:
            whole = self.whole(self.subscript(whole, (slice(None), *rest)))
        chosen = self.selection(whole, (self.in_slice(bounds, self.dims(whole)[0]),))
        if chosen is not None:
            ends = (bounds.start, bounds.stop)
            numbers = [None if end is None else self.integers_as_numbers(end) for end in ends]
            chosen.ends = tuple(None if x is None else self.pack(x)[0] for x in numbers)
            chosen.integers = array if is_index_array(array) and not rest else None
        return chosen

    def in_slice(self, bounds: slice, size: Affine) -> Value:
        """Return the condition array of the positions in a slice whose ends data or indices decide."""
        if bounds.step not in (None, 1):
            raise self.error(
                "a slice with a step whose ends data decide, or are a `max` or `min` of indices",
                "loop over its entries: `for j in range(k[i], k[i + 1], 2): …`",
            )
        segment = self.segment(bounds.start, bounds.stop)
        if segment is not None and segment[0].is_constant and segment[0].constant >= 0:
            begin, end, holds = segment

            def lies_in(j: Affine) -> Predicate:
                return conj(compare("≤", begin, j), compare("<", j, end), holds(j))

            chosen: Value = as_truth(self.condition_array([size], lies_in))
            return chosen
        by_data = [sought_of(end) is not None for end in (bounds.start, bounds.stop)]
        lows = (
            ()
            if bounds.start is None or by_data[0]
            else self._extremes_of_bound(bounds.start, "maximum")
        )
        ends = (
            ()
            if bounds.stop is None or by_data[1]
            else self._extremes_of_bound(bounds.stop, "minimum")
        )
        for end in (bounds.start, bounds.stop):
            for p, a in self.cases_of(end) or ():
                with self.scope(condition=p):  # below 0 it would be counted from the end
                    self.looked("the slice", "the array", a, a + 1)

        def within(j: Affine) -> Predicate:
            return conj(*(compare("≤", a, j) for a in lows), *(compare("<", j, a) for a in ends))

        mask: Value = as_truth(self.condition_array([size], within))
        for end, op in ((bounds.start, "<="), (bounds.stop, ">")):
            if sought_of(end) is not None:
                mask = self._both(mask, self._places_from(end, op, size))
        return mask

    def _places_from(self, end: Index, op: str, size: Affine) -> Value:
        """Return, for each index of an axis, whether a slice's end that data decide is `op` it, as 1 or 0.

        Args:
            op: "<=" for where the slice begins, ">" for its end.
        """
        number, sought = self.integers_as_numbers(end), end.sought
        least = None if sought is None else sought.least()
        if least is None or not at_most(Affine.of(0), least) or least.names & self.integers:
            number = self._from_start(number, size)

        def entry(j: Affine) -> Value:
            return self.truth(self._compare(op, number, Index(self, j)))

        places: Value = as_truth(self.build([size], entry, number))
        return places

    def places_of_pairs(
        self,
        rows: Affine,
        columns: Affine,
        holds: Callable[[Affine, Affine], Predicate],
        constants: Callable[[], Any],
    ) -> tuple[Selected, ...]:
        """Return the rows and the columns of the pairs of indices for which a condition holds."""
        mask = as_truth(self.condition_array([rows, columns], holds))
        made = []
        for axis in (0, 1):
            ramp = self.build([rows, columns], lambda *at, axis=axis: self.ramp(at[axis]))
            made.append(Selected(self, ramp, mask, mask.term))
            made[-1].pairs = Pairs(axis, constants)
        return tuple(made)

    def _at_pairs(self, array: Any, indices: tuple[Any, ...]) -> Selected:
        """Return `x[i]`, `D[i, j]` or `P[i, 0]`, where i and j are the rows and columns of pairs."""
        count = 2 if len(indices) > 1 and isinstance(indices[1], Selected) else 1
        pairs, rest = indices[:count], indices[count:]
        first = pairs[0]
        same = all(isinstance(p, Selected) and p.written is first.written for p in pairs)
        if not same or any(isinstance(p, Selected) or self.is_array(p) for p in rest):
            raise self.error(
                "the places of pairs beside other indices",
                "they index the first axes, `D[i, j]`, `x[i, 0]`; or sum over the indices",
            )
        value = self.once(self.whole(array))
        if rest:
            value = self.once(self.subscript(value, (*[slice(None)] * count, *rest)))
        own, taken = self.dims(value), self.dims(first.mask)
        axes = [p.pairs.axis for p in pairs]
        if len(own) < count:
            raise self.error(f"{count} indices for an array of {len(own)} dimensions")
        for k, axis in enumerate(axes):
            self.looked("the index", "the array", taken[axis], own[k] + 1, k)

        def entry(*at: Affine) -> Value:
            return self.read(value, *(at[axis] for axis in axes), *at[2:])

        made = self.build([*taken, *own[count:]], entry, value)
        return Selected(self, self.once(made), first.mask, first.written)

    def selected(self, function: Callable[..., Any], safe: bool, *values: Any) -> Selected:
        """Return a function, entry by entry, of selections by one condition and of values that all entries share."""
        first = next((value for value in values if isinstance(value, Selected)), None)
        if first is None:
            raise self.error(
                "entries that data choose as a named argument", "give them by position"
            )
        rest = len(self.dims(first.array)) - len(self.dims(first.mask))
        given: list[Any] = []
        for value in values:
            if isinstance(value, Selected):
                if not self._have_equal_choice(value, first):
                    raise self.error(
                        "entries that two conditions choose side by side",
                        "choose by one: `p = x > 0`, `x[p] * y[p]`",
                    )
                given.append(self._where_chosen(value, 1) if safe else value.array)
                continue
            if self.is_array(value) and len(self.dims(self.whole(value))) > rest:
                raise self.error(
                    "an array beside entries that a condition chooses",
                    "choose of it, too: `x[p] * y[p]`; or keep every entry: `np.where(p, x, 0)`",
                )
            given.append(value)
        made = self.whole(function(*given))
        if len(self.dims(made)) < len(self.dims(first.mask)):
            raise self.error("this function is not elementwise", "keep every entry: `np.where`")
        return self._chosen_with(first, made)

    def _chosen_with(self, value: Selected, array: Value) -> Selected:
        """Return the entries of another array that the same condition chooses."""
        made = Selected(self, self.once(array), value.mask, value.written)
        made.length, made.ends = value.length, value.ends
        return made

    def _have_equal_choice(self, selected: Selected, other: Selected) -> bool:
        """Whether two selections have the same condition.

        For slices, size equations that make their lengths equal are recorded.
        """
        if selected.length is not None and other.length is not None:
            self.as_long(selected.length, other.length)
        if selected.ends is not None and selected.ends == other.ends:
            self.same(self.dims(selected.mask)[0], self.dims(other.mask)[0])
            return True
        return selected.written is other.written

    def _where_chosen(self, value: Selected, other: Any) -> Value:
        """Return a selection's array with another value where the condition does not hold."""
        return self.chosen(self._spread_condition(value), value.array, other)

    def _spread_condition(self, value: Selected) -> Value:
        """Return the selection's condition with the axes of its array, for every entry."""
        rest = len(self.dims(value.array)) - len(self.dims(value.mask))
        made: Value = self.subscript(value.mask, (..., *[None] * rest)) if rest else value.mask
        return made

    def how_many(self, value: Selected) -> Any:
        """Return the number of chosen rows."""
        return forms.build(self, "count_nonzero", value.mask)

    def of_selected(self, name: str, arguments: Sequence[Any], named: Mapping[str, Any]) -> Any:
        """Return a reduction of selections: a number, or an array over the axes that are not chosen from."""
        value, *others = arguments
        chosen = [isinstance(x, Selected) for x in arguments]
        ranks = [
            len(self.dims(x.array)) - len(self.dims(x.mask))
            for x in arguments
            if isinstance(x, Selected)
        ]
        if name in ("dot", "matmul") and not named and len(others) == 1:
            if chosen == [True, False] and ranks[0]:
                made = forms.build(self, "matmul", value.array, others[0])
                return self._chosen_with(value, made)
            if chosen == [True, True] and ranks == [0, 1] and self._have_equal_choice(*arguments):
                return forms.build(self, "matmul", *(self._where_chosen(x, 0) for x in arguments))
        if name in PRODUCTS and chosen == [True, True] and not named:
            both = self.selected(lambda a, b: self.computed("*", a, b), False, *arguments)
            if len(self.dims(both.array)) == len(self.dims(both.mask)):
                return self._reduced("sum", both, None)
        axis = named.get("axis", others[0] if others else None)
        behind = len(self.dims(value.array)) - len(self.dims(value.mask))
        if isinstance(axis, int) and -behind <= axis <= behind and axis and not any(chosen[1:]):
            k = axis - 1 - behind if axis > 0 else axis
            return self._of_each(name, value, k, {x: v for x, v in named.items() if x != "axis"})
        if name in ("argmax", "argmin") and value.length is not None and not named and not others:
            return forms.build(self, name, self._where_chosen(value, BEYOND_ALL[name[3:]]))
        rest = {x: v for x, v in named.items() if x not in ("axis", "ddof")}
        most = 0 if name == "norm" else 1  # its second argument is no axis
        if name not in REDUCTIONS or rest or chosen[1:].count(True) or len(others) > most:
            raise self.error(
                f"`{name}` of entries that data choose",
                "sum them, or take their mean: `x[p].sum()`; or keep every entry: `np.where(p, x, 0)`",
            )
        if axis not in (None, 0):
            raise self.error(
                "along an axis that is not chosen of", "reduce along it first: `x.sum(1)[p]`"
            )
        if name in ("norm", "count_nonzero"):
            value = self.selected(
                lambda a: (
                    self.computed("**", a, 2) if name == "norm" else self._compare("!=", a, 0)
                ),
                False,
                value,
            )
            made = self._reduced("sum", value, axis)
            return self.mapped("sqrt", made) if name == "norm" else made
        return self._reduced(name, value, axis, {x: v for x, v in named.items() if x == "ddof"})

    def _reduced(
        self, name: str, value: Selected, axis: Any, named: Mapping[str, Any] | None = None
    ) -> Any:
        """Return NumPy's reduction of the entries `where` a condition holds; of no entries, the largest is -inf."""
        rank = len(self.dims(value.array if axis is None else value.mask))
        given = {
            "axis": tuple(range(rank)),
            "where": self._spread_condition(value),
            **(named or {}),
        }
        if name in ("max", "min"):
            given["initial"] = BEYOND_ALL[name]
        return forms.form_named(name).call(self, (value.array,), given)

    def _of_each(self, name: str, value: Selected, axis: int, named: dict[str, Any]) -> Selected:
        """Return a function along one of the last axes, which the condition does not choose from."""
        form = forms.form_named(name)
        made = form.call(self, (self._where_chosen(value, 1),), {**named, "axis": axis})
        return self._chosen_with(value, self.whole(made))

    def how_many_entries(self, value: Selected) -> Any:
        """Return the number of entries in the chosen rows."""
        count = self.how_many(value)
        for size in self.dims(value.array)[len(self.dims(value.mask)) :]:
            count = self.computed("*", count, self.scalar_of(size))
        return self.once(self.whole(count), "count")

    # What else there is of a selection

    def minus(self, k: int, value: Any) -> Any:
        """Return `-value`, also of a selection."""
        if isinstance(value, Selected):
            self.at(k)
            return self.selected(self.negative, False, value)
        return super().minus(k, value)

    def binary(self, k: int, op: str, left: Any, right: Any) -> Any:
        """Return `left op right`, also of selections."""
        if isinstance(left, Selected) or isinstance(right, Selected):
            self.at(k)
            if op == "@":
                return self.of_selected("dot", (left, right), {})
            safe = op not in ("+", "-", "*", "&", "|")
            ordinary = super().binary
            return self.selected(lambda a, b: ordinary(k, op, a, b), safe, left, right)
        return super().binary(k, op, left, right)

    def _compare(self, op: str, left: Any, right: Any) -> Any:
        """Return a comparison, also of selections."""
        if isinstance(left, Selected) or isinstance(right, Selected):
            ordinary = super()._compare
            return self.selected(lambda a, b: as_truth(ordinary(op, a, b)), False, left, right)
        return super()._compare(op, left, right)


PRODUCTS = ("dot", "vdot", "inner", "matmul")
BEYOND_ALL = {"max": -math.inf, "min": math.inf}
REDUCTIONS = ("sum", "mean", "var", "std", "prod", "count_nonzero", "norm", "max", "min")
