"""Integers computed from indices, sizes and index arrays: `max(i - 1, 0)`, `src[e] + 1`, `i // 2`, `(i + 1) % n`.

A size, an index and a bound of a loop are affine in the language. So what takes one of these is done case by case, each
under its condition; where only sizes decide which case it is, the call's sizes do. Any other integer is compared, and read
at, by a predicate that says where it is which.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import add
from typing import Any

from ...language.affine import Affine
from ...language.function import Function, find_function
from ...language.predicates import (
    FALSE,
    TRUE,
    And,
    Exists,
    Or,
    Predicate,
    Related,
    compare,
    conj,
    conjuncts,
    disj,
    exists,
    fresh,
    in_range,
    negate,
    substitute,
)
from ...language.terms import Add, Binder, Call, Const, Guard, Mul, Term, Var, strip_entries
from ...polyhedral import sets
from ..tracers import (
    Case,
    Condition,
    Data,
    Index,
    Nature,
    NonAffineInteger,
    Value,
    affine_of,
    is_index_array,
    several_cases,
    sought_of,
)
from .arrays import Range, at_most, beyond, counts_from_the_end, joined_ranges, range_of
from .conditions import TURNED, Conditions
from .trace_result import Lookup

MANY = 32  # remainders up to which one that is compared by `<` is each looked at


class Integers(Conditions):
    """Integers of every kind: what they are, and how they compare."""

    # What classes that extend this one define
    on_host: Callable[..., Any]
    counting_from_start: Callable[[str, Affine, Affine], str | None]
    is_tested: Callable[[str], bool]
    segment_ids: Callable[[str], Data | None]
    from_data: Callable[[Value], Index]

    # Affine case by case

    def piecewise(
        self, cases: Sequence[Case], ends: tuple[str, Sequence[Affine]] | None = None
    ) -> Index:
        """Return an integer with these cases, of which exactly one holds."""
        conditions: dict[Affine, list[Predicate]] = {}
        for p, a in cases:
            if p != FALSE:
                conditions.setdefault(a, []).append(p)
        if len(conditions) == 1:
            return Index(self, next(iter(conditions)))
        made = tuple((disj(*ps), a) for a, ps in conditions.items())
        return Index(self, None, made, *(ends or ("", ())))

    def cases_of(self, value: Any) -> tuple[Case, ...] | None:
        """Return the cases of an integer that indices and sizes decide; None for other values."""
        if (a := affine_of(value)) is not None:
            return ((TRUE, a),)
        return value.cases if isinstance(value, Index) else None

    def of_cases(self, values: Sequence[Any], combine: Callable[..., Sequence[Case]]) -> Index:
        """Return the integer that `combine` makes of the cases of several integers."""
        found: list[tuple[Predicate, tuple[Affine, ...]]] = [(TRUE, ())]
        for value in values:
            cases = self.cases_of(value) or ()
            found = [(conj(p, q), (*before, a)) for p, before in found for q, a in cases]
        return self.piecewise([(conj(p, q), a) for p, given in found for q, a in combine(*given)])

    def extreme_integer(self, name: str, values: Sequence[Any]) -> Any:
        """Return `max(a, b, …)` or `min(a, b, …)` of integers; None if indices and sizes do not decide one of them."""
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
            if several_cases(result) and None not in ends:
                given = dict.fromkeys(a for end in ends for a in end or ())
                result = self.piecewise(result.cases or (), (name, tuple(given)))
        return result

    def absolute_integer(self, value: Any) -> Index:
        """Return `abs(i - j)`."""
        return self.of_cases(
            (value,), lambda a: [(compare("≤", 0, a), a), (compare("<", a, 0), a * -1)]
        )

    def _never_above(self, low: Affine, high: Affine) -> bool:
        """Whether low ≤ high for all sizes and indices."""
        return at_most(low, high) and self.integers.isdisjoint((high - low).names)

    def one_case(self, value: Index) -> Affine | None:
        """Return the only case that is possible here; None if indices decide. If sizes decide, they become numbers."""
        possible = self._possible_cases(value)
        if len(possible) == 1:
            return possible[0][1]
        names = frozenset[str]().union(*(p.names for p, _ in value.cases or ()))
        if names.isdisjoint(i for i, _ in self.binders):
            for name in sorted(names):
                self.number(Affine.of(name))
        return None

    def case_by_case(self, value: Index, make: Callable[[Affine], Any]) -> Any:
        """Return what `make` makes of an integer, under the condition of each of its cases."""
        possible = self._possible_cases(value)

        def from_case(k: int) -> Any:
            p, a = possible[k]
            if k == len(possible) - 1:
                return make(a)
            here = Condition(self, p)
            return self.choose(self.here, here, lambda: make(a), lambda: from_case(k + 1))

        return from_case(0)

    def _possible_cases(self, value: Index) -> list[Case]:
        """Return the cases that may hold here."""
        binders, cases = tuple(self.binders), list(value.cases or ())
        here = conj(*self.conditions)
        return [(p, a) for p, a in cases if not sets.is_impossible(binders, conj(here, p))] or cases

    def by_cases(self, index: Any) -> Index | None:
        """Return an integer with several cases; None for others.

        `a % n` is one if a is nowhere further than n below 0 or above n - 1.
        """
        if several_cases(index):
            return index
        sought = sought_of(index)
        op, a, n = sought.division if sought and sought.division else ("", ZERO, ZERO)
        once = disj(compare("<", a, n * -1), compare("≤", n * 2, a))
        if op != "%":
            return None
        here = tuple(self.binders), conj(*self.conditions, once)
        if not sets.is_impossible(*here) and self._divisor(n):
            return None
        cases = (
            (conj(compare("≤", 0, a), compare("<", a, n)), a),
            (compare("≤", n, a), a - n),
            (compare("<", a, 0), a + n),
        )
        return Index(self, None, cases)

    def from_the_end(self, index: Any, size: Affine) -> Index | None:
        """Return `x[-i]`'s index, where i may be 0: counted from the end, except for 0; None for other indices."""
        a = affine_of(index)
        if a is None or isinstance(index, int) or a.constant:
            return None
        if not counts_from_the_end(a) or not a.names & {i for i, _ in self.binders}:
            return None
        return Index(self, None, ((compare("<", a, 0), size + a), (compare("≤", 0, a), a)))

    # Affine nowhere

    def looked_up(self, relation: str, arguments: tuple[Affine, ...], offset: Affine) -> Index:
        """Return an entry of an index array, `src[e]`, plus an offset, as an integer."""

        def equals(k: Affine) -> Predicate:
            return Related(relation, (*arguments, k - offset))

        def compared(op: str, k: Affine) -> Predicate | None:
            if op not in ("==", "!="):
                return None
            return equals(k) if op == "==" else self._negation(equals(k))

        def least() -> Affine | None:
            return outermost("min") if relation in self.signed else offset

        def most() -> Affine | None:
            return outermost("max")

        def outermost(extreme: str) -> Affine | None:
            entry = affine_of(self.on_host(self.arguments[relation], extreme))
            return None if entry is None else entry + offset

        def number() -> Term:
            numbers = self.read(self.whole(self.arguments[relation]), *arguments).term
            return numbers if offset == ZERO else Add(numbers, self.index_term(offset))

        def check(size: Affine, from_end: bool = True) -> None:
            if self._varies(size):
                raise self.error(
                    "an index array reads an array whose size changes in this loop",
                    "make the array as long as its longest, and fill it: `y = np.zeros(n)`, `y[i] = e`",
                )
            if relation not in self.counting_up:
                here = tuple(self.binders), conj(*self.conditions), self.place
                flags = (
                    self.is_tested(relation),
                    from_end and relation in self.signed,
                )
                self.lookups.append(Lookup(relation, arguments, offset, size, *here, *flags))

        def from_end(size: Affine) -> Index:
            check(size)
            there = self.counting_from_start(relation, offset, size)
            if there is None:
                return self.from_data(Value(self, number()).of_nature(Nature(numbers="int")))
            return self.looked_up(there, arguments, ZERO)

        refusal = (
            "{what} takes an affine index, not an entry of an index array",
            "read an array with it, `x[src[e]]`, or compare it, `src[e] == j`",
        )
        sought = NonAffineInteger(
            "an entry of an index array",
            number,
            check,
            least,
            most,
            refusal,
            compared,
            lambda k: ((), equals(k)),
            from_end=from_end if relation in self.signed else None,
            entry=(relation, arguments, offset),
        )
        return Index(self, sought=sought)

    def segment(
        self, first: Any, last: Any
    ) -> tuple[Affine, Affine, Callable[[Affine], Predicate]] | None:
        """Return, for `ptr[i], ptr[i + 1]`, where the segments begin, where they end, and whether an integer lies in this one.

        None for other ends, or if the entries of `ptr` do not ascend.
        """
        one, other = sought_of(first), sought_of(last)
        if one is None or other is None or one.entry is None or other.entry is None:
            return None
        relation, at, offset = one.entry
        ends = tuple(a + 1 for a in at)
        ids = None
        if other.entry == (relation, ends, offset) and len(at) == 1:
            ids = self.segment_ids(relation)
        if ids is None:
            return None
        for a in (*at, *ends):
            (size,) = self.dims(self.arguments[relation])
            self.looked(f"{relation}[{a.rename_names(self.spelt)}]", relation, a, size)
        (count,) = ids.dims
        return offset, count + offset, lambda k: Related(ids.name, (k - offset, *at))

    def divided(self, op: str, a: Affine, n: Affine) -> Index:
        """Return `a % n` or `a // n` of an index."""
        refusal = (
            f"`{op}` makes this index not affine",
            "use i, n, constants, +, - and constant multiples, or read an entry there, `x[(i + 1) % n]`; "
            "for anything else pass an index array",
        )

        def number() -> Term:
            name = "mod" if op == "%" else "floor_divide"
            return Call(find_function(name), (self.index_term(a), self.index_term(n)))

        def compared(sign: str, b: Affine) -> Predicate | None:
            if not (k := self._divisor(n)):
                return None
            if op == "//":
                return self._compare_quotient(sign, a, b * k, k)
            if sign in ("==", "!="):
                p = conj(in_range(b, Affine.of(k)), self._divisibility(a - b, k))
                return p if sign == "==" else self._negation(p)
            if k > MANY:
                return None
            remainders = ((self._compare_affine(sign, Affine.of(r), b), r) for r in range(k))
            return disj(
                *(conj(p, self._divisibility(a - r, k)) for p, r in remainders if p != FALSE)
            )

        def meet(j: Affine) -> tuple[tuple[Binder, ...], Predicate]:
            if not (k := self._divisor(n)):
                raise self.error(*refusal)
            other = self.name("e")
            e = Affine.of(other)
            if op == "//":
                return (Binder(other, Affine.of(k)),), compare("=", j * k + e, a)
            first, count = self._multiples(a, k)
            within = compare("<", j, k)
            return (Binder(other, count),), conj(within, compare("=", (e + first) * k + j, a))

        def check(size: Affine, **_: bool) -> None:
            if k := self._divisor(n):
                end = (a, size * k) if op == "//" else (Affine.of(k - 1), size)
                self.looked("the index", "the array", *end)

        sought = NonAffineInteger(
            "an index",
            number,
            check,
            lambda: ZERO,
            lambda: n - 1 if op == "%" and self._divisor(n) else None,
            refusal,
            compared,
            meet,
            within=(ZERO, n) if op == "%" else None,
            division=(op, a, n),
        )
        return Index(self, sought=sought)

    def _divisor(self, n: Affine) -> int:
        """Return the constant divisor of an index; 0 if it is a size or not positive."""
        return max(0, self.number(n)) if n.names <= self.integers else 0

    def _multiples(self, a: Affine, k: int) -> tuple[Affine, Affine]:
        """Return the least multiple of k, and how many multiples there are, in the range of `a` at all indices around."""
        for x in a.names & self.integers:  # which may be negative
            self.number(Affine.of(x))
        low = high = a
        for i, n in reversed(self.binders):
            first, last = Affine.of(0), n - 1
            up = low.coefficient(i) > 0, high.coefficient(i) > 0
            low = low.substitute({i: first if up[0] else last})
            high = high.substitute({i: last if up[1] else first})
        # Sizes are not negative, so that each counts at least as much whole as divided by k.
        falls = Affine(tuple((x, c) for x, c in low.terms if c < 0), min(0, low.constant) // k)
        rises = Affine(tuple((x, c) for x, c in high.terms if c > 0), max(0, high.constant) // k)
        return falls, rises - falls + 1

    def _divisibility(self, a: Affine, k: int) -> Predicate:
        """Return the predicate that k divides an index: `∃ q:n. k·q = a`."""
        first, count = self._multiples(a, k)
        q = fresh("q", a.names | count.names)
        return exists(q, count, compare("=", a, (Affine.of(q) + first) * k))

    def _compare_quotient(self, op: str, a: Affine, low: Affine, k: int) -> Predicate:
        """Return the predicate `a // k op b`, where low is k·b."""
        match op:
            case "==":
                return conj(compare("≤", low, a), compare("<", a, low + k))
            case "!=":
                return disj(compare("<", a, low), compare("≤", low + k, a))
            case "<" | ">=":
                return self._compare_affine(op, a, low)
        return self._compare_affine("<" if op == "<=" else ">=", a, low + k)

    # Whatever they are

    def compared_integers(self, op: str, left: Any, right: Any) -> Condition | bool | None:
        """Return a comparison of integers; None if they must be compared as numbers."""
        one, other = sought_of(left), sought_of(right)
        if one is not None and other is not None:
            (kind, a, n), (kind_, b, m) = one.division or _NONE, other.division or _NONE
            if kind != "%" or kind_ != "%" or n != m or op not in ("==", "!="):
                return None
            return self.compared_integers(op, self.divided("%", a - b, n), 0)
        if one is None and other is not None:
            op, left, right = TURNED.get(op, op), right, left
        sought, found = one or other, list[Predicate | None]()
        for p, b in self.cases_of(right) or ():
            if sought is not None:
                met = sought.compare(op, b)
                found.append(None if met is None else conj(p, met))
                continue
            cases = self.cases_of(left) or ()
            found += [conj(p, q, self._compare_affine(op, a, b)) for q, a in cases]
        known = [p for p in found if p is not None]
        return self._known(disj(*known)) if known and len(known) == len(found) else None

    def as_term(self, value: Index) -> Term:
        """Return an integer as a number."""
        if value.sought is not None:
            return value.sought.number()
        *others, last = [(p, self.index_term(a), None) for p, a in value.cases or ()]
        result = last
        for one in reversed(others):
            made = self._choose_by_predicate([one, result]).term
            result = (disj(one[0], result[0]), made, None)
        return result[1]

    def is_some(
        self, value: Index, condition: Callable[[Affine], Predicate | None]
    ) -> Predicate | None:
        """Return the predicate that a condition holds for an integer that is not affine; None if its range is unknown."""
        assert value.sought is not None
        least, most = value.sought.least(), value.sought.most()
        if least is None or most is None:
            return None
        at = Affine.of(self.name("v"))
        equals, holds = value.sought.compare("==", at + least), condition(at + least)
        if equals is None or holds is None:
            return None
        return exists(next(iter(at.names)), most - least + 1, conj(equals, holds))

    def extent(self, e: Term) -> Range | None:
        """Return between which numbers an integer lies that index arrays and sizes decide; None if something else does."""
        root, _ = strip_entries(e)
        if isinstance(root, Var) and root.name in self.numbers:
            ends = [affine_of(self.on_host(self.numbers[root.name], x)) for x in ("min", "max")]
            return (
                None
                if None in ends
                else _enclosing_range(*(self.number(end or ZERO) for end in ends))
            )
        match e := self._resolve_name(e):
            case Const(Affine() | int() as a):
                within: Range | None = (Affine.of(a), Affine.of(a) + 1)
                for index, size in reversed(self.binders):
                    within = beyond(within, index, size)
                assert within is not None
                return _enclosing_range(self.number(within[0]), self.number(within[1] - 1))
            case Call(Function(name="kept" | "dropped"), (_, inner)) | Guard(_, inner):
                return joined_ranges([self.extent(inner), _enclosing_range(0, 0)])
            case Add() | Mul() | Call():
                name = e.function.name if isinstance(e, Call) else type(e).__name__
                each = [self.extent(child) for child in e.children]
                known = [(a.constant, b.constant - 1) for a, b in filter(None, each)]
                return _extent_of(name, known) if len(known) == len(each) else None
        return None

    def negated_search(self, p: Predicate) -> Predicate | None:
        """Return the negation of a search of index arrays, in which an entry is one integer: `∃ v. src(i, v) ∧ ¬q` for `∃ v.
        src(i, v) ∧ q`.
        """
        match p:
            case And(parts) | Or(parts):
                found = [self.negated_search(part) for part in parts]
                whole = [part for part in found if part is not None]
                if len(whole) < len(found):
                    return None
                return disj(*whole) if isinstance(p, And) else conj(*whole)
            case Exists(index, size, body):
                entries = [part for part in conjuncts(body) if self._is_entry(part, index)]
                if len(entries) != 1:
                    return None
                (entry,) = entries
                assert isinstance(entry, Related)
                within = conj(*(part for part in conjuncts(body) if part is not entry))
                more = entry.arguments[-1] - Affine.of(index)

                def missed(v: Affine) -> Predicate | None:
                    there = {index: v - more}
                    inside = conj(in_range(v - more, size), substitute(within, there))
                    return self.negated_search(inside)

                value = self.looked_up(entry.relation, entry.arguments[:-1], ZERO)
                return self.is_some(value, missed)
        return negate(p)

    def _is_entry(self, p: Predicate, index: str) -> bool:
        """Whether a predicate says that an index, perhaps plus a constant, is an entry of an index array."""
        if (
            not isinstance(p, Related)
            or p.negated
            or not is_index_array(self.arguments.get(p.relation))
        ):
            return False
        *at, entry = p.arguments
        return entry.coefficient(index) == 1 and all(index not in a.names for a in at)

    def integers_as_numbers(self, value: Any) -> Any:
        """Return an array of integers, or an integer that is not affine, as numbers; other values unchanged."""
        if is_index_array(value):
            return self.whole(value)
        if not isinstance(value, Index) or affine_of(value) is not None:
            return value
        return Value(self, self.as_term(value)).of_nature(
            Nature(numbers="int", within=range_of(value))
        )


def _enclosing_range(*values: int) -> Range:
    """Return the range of these integers."""
    return Affine.of(min(values)), Affine.of(max(values) + 1)


def _extent_of(name: str, ranges: Sequence[tuple[int, int]]) -> Range | None:
    """Return the range of a function of integers, from the ranges of its arguments, ends included; None if unknown."""
    match name, ranges:
        case "Add" | "maximum" | "minimum", _:
            of: dict[str, Callable[[int, int], int]] = {"Add": add, "maximum": max, "minimum": min}
            return _enclosing_range(*(of[name](a, b) for a, b in zip(*ranges, strict=True)))
        case "Mul", [one, two]:
            return _enclosing_range(*(a * b for a in one for b in two))
        case "abs", [(low, high)]:
            return _enclosing_range(max(0, low, -high), max(-low, high))
        case "mod", [_, (n, m)] if n > 0:
            return _enclosing_range(0, m - 1)
        case "floor_divide", [ends, (n, m)] if n > 0:
            return _enclosing_range(*(a // b for a in ends for b in (n, m)))
        case (("less" | "less_equal" | "equal" | "picks"), _):
            return _enclosing_range(0, 1)
    return None


ZERO = Affine.of(0)
_NONE = ("", ZERO, ZERO)


def _ends_of(name: str, value: Any) -> tuple[Affine, ...] | None:
    """Return the affine expressions whose maximum or minimum an integer is; None for other integers."""
    if several_cases(value):
        return value.ends if value.extreme == name else None
    a = affine_of(value)
    return None if a is None else (a,)
