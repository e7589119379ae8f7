"""Integers that are affine on each of several cases: `max(i - 1, 0)`, `abs(i - j)`, `i + n if i < n else i - n`.

A size, an index and a bound of a loop are affine in the language. So what takes one of these is done case by case, each
under its condition; where only sizes decide which case it is, the call's sizes do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...language.affine import Affine
from ...language.predicates import FALSE, TRUE, Predicate, compare, conj, disj
from ...language.terms import Term
from ...polyhedral import sets
from ..tracers import Case, Condition, Divided, Index, Piecewise, WholeNumber
from .conditions import Conditions
from .wholes import at_most, counts_from_the_end


class PiecewiseIntegers(Conditions):
    """`max`, `min`, `abs` and choices of indices and sizes."""

    def piecewise(
        self, cases: Sequence[Case], ends: tuple[str, Sequence[Affine]] | None = None
    ) -> Any:
        """An integer of these cases, of which exactly one holds; an index where it is the same in all of them."""
        conditions: dict[Affine, list[Predicate]] = {}
        for p, a in cases:
            if p != FALSE:
                conditions.setdefault(a, []).append(p)
        if len(conditions) == 1:
            return Index(self, next(iter(conditions)))
        made = tuple((disj(*ps), a) for a, ps in conditions.items())
        return Piecewise(self, made, *(ends or ("", ())))

    def cases_of(self, value: Any) -> tuple[Case, ...] | None:
        """The cases of an integer that indices and sizes decide; None for anything else."""
        if isinstance(value, int) and not isinstance(value, bool):
            return ((TRUE, Affine.of(value)),)
        return value.cases if isinstance(value, WholeNumber) else None

    def of_cases(self, values: Sequence[Any], combine: Callable[..., Sequence[Case]]) -> Any:
        """What `combine` makes of the cases of several integers, as an integer."""
        found: list[tuple[Predicate, tuple[Affine, ...]]] = [(TRUE, ())]
        for value in values:
            cases = self.cases_of(value) or ()
            found = [(conj(p, q), (*before, a)) for p, before in found for q, a in cases]
        return self.piecewise([(conj(p, q), a) for p, given in found for q, a in combine(*given)])

    def extreme_integer(self, name: str, values: Sequence[Any]) -> Any:
        """`max(a, b, …)` or `min(a, b, …)` of integers; None where one is no integer that indices and sizes decide."""
        if any(self.cases_of(value) is None for value in values):
            return None

        def better(a: Affine, b: Affine) -> Sequence[Case]:
            low, high = (b, a) if name == "maximum" else (a, b)
            if self._never_above(low, high):
                return [(TRUE, a)]
            if self._never_above(high, low):
                return [(TRUE, b)]
            return [(compare("≤", low, high), a), (compare("<", high, low), b)]

        result, *others = values
        for other in others:
            ends = _ends_of(name, result), _ends_of(name, other)
            result = self.of_cases((result, other), better)
            if isinstance(result, Piecewise) and None not in ends:
                given = dict.fromkeys(a for end in ends for a in end or ())
                result = self.piecewise(result.cases, (name, tuple(given)))
        return result

    def absolute_integer(self, value: Any) -> Any:
        """`abs(i - j)`."""
        return self.of_cases(
            (value,), lambda a: [(compare("≤", 0, a), a), (compare("<", a, 0), a * -1)]
        )

    def _never_above(self, low: Affine, high: Affine) -> bool:
        """Whether low ≤ high whatever the sizes and indices are."""
        return at_most(low, high) and self.integers.isdisjoint((high - low).names)

    def one_case(self, value: Piecewise) -> Affine | None:
        """The only case that is possible here. Where sizes alone decide which it is, they become numbers; None where
        indices do.
        """
        binders = tuple(self.binders)
        possible = [
            a for p, a in value.cases if not sets.impossible(binders, conj(*self.conditions, p))
        ]
        if len(possible) == 1:
            return possible[0]
        names = frozenset[str]().union(*(p.names for p, _ in value.cases))
        if names.isdisjoint(i for i, _ in binders):
            for name in sorted(names):
                self.number(Affine.of(name))
        return None

    def case_by_case(self, value: Piecewise, make: Callable[[Index], Any]) -> Any:
        """What is made of an integer, under the condition of each of its cases."""
        possible = self._possible(value)

        def from_case(k: int) -> Any:
            p, a = possible[k]
            if k == len(possible) - 1:
                return make(Index(self, a))
            here = Condition(self, p)
            return self.choose(
                self.here, here, lambda: make(Index(self, a)), lambda: from_case(k + 1)
            )

        return from_case(0)

    def _possible(self, value: Piecewise) -> list[Case]:
        """The cases that may hold here."""
        binders = tuple(self.binders)
        possible = [
            (p, a)
            for p, a in value.cases
            if not sets.impossible(binders, conj(*self.conditions, p))
        ]
        return possible or list(value.cases)

    def once_round(self, place: Divided) -> Piecewise | None:
        """`a % n` where a is nowhere further than n below 0 or above n - 1; None where it may be."""
        a, n = place.affine, place.divisor
        once = disj(compare("<", a, n * -1), compare("≤", n * 2, a))
        if place.op != "%" or not sets.impossible(
            tuple(self.binders), conj(*self.conditions, once)
        ):
            return None
        return Piecewise(self, _around(a, n))

    def from_the_end(self, place: Any, size: Affine) -> Piecewise | None:
        """`x[-i]` where i may be 0: counted from the end, but for 0; None for any other index."""
        if not isinstance(place, Index) or place.affine.constant:
            return None
        a, indices = place.affine, {i for i, _ in self.binders}
        if not counts_from_the_end(a) or not a.names & indices:
            return None
        return Piecewise(self, ((compare("<", a, 0), size + a), (compare("≤", 0, a), a)))

    def around(self, place: Divided) -> Piecewise:
        """`a % n` as `once_round` has it; what is further away is out of range, and refused as such."""
        return Piecewise(self, _around(place.affine, place.divisor))

    def compared_cases(self, op: str, left: Any, right: Any) -> Condition | bool | None:
        """A comparison of integers of which one is piecewise."""
        sides = self.cases_of(left), self.cases_of(right)
        if sides[0] is None or sides[1] is None:
            return None
        return self._known(
            disj(
                *(conj(p, q, self._of_indices(op, a, b)) for p, a in sides[0] for q, b in sides[1])
            )
        )

    def piecewise_term(self, value: Piecewise) -> Term:
        """The integer as a number."""
        *others, last = [(p, self._size_as_number(Index(self, a)), None) for p, a in value.cases]
        result = last
        for one in reversed(others):
            rest = result[0]
            made = self._either([one, result]).term
            result = (disj(one[0], rest), made, None)
        return result[1]


def _around(a: Affine, n: Affine) -> tuple[Case, ...]:
    return (
        (conj(compare("≤", 0, a), compare("<", a, n)), a),
        (compare("≤", n, a), a - n),
        (compare("<", a, 0), a + n),
    )


def _ends_of(name: str, value: Any) -> tuple[Affine, ...] | None:
    """The affine expressions of which an integer is the largest or smallest."""
    match value:
        case Piecewise():
            return value.ends if value.extreme == name else None
        case Index():
            return (value.affine,)
    return (Affine.of(value),)
