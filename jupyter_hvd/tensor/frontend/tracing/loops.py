"""Loops: comprehensions, sums, `any` and `all` over `range`."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, TypeVar, cast

from ...language.affine import Affine
from ...language.errors import TensorError
from ...language.predicates import TRUE, Predicate, compare, conj, exists, reserve_generated_names
from ...language.terms import Binder, Gen, Sum, Term, guard, lets
from ...language.types import REAL, Array
from ..tracers import (
    Condition,
    Data,
    Index,
    Nature,
    Selected,
    UnreadableError,
    UnreadableValue,
    Value,
    affine_of,
    as_truth,
    is_tuple,
    kind,
    lists_of,
    numbers_of,
    several_cases,
    sought_of,
    tuples_of,
)
from .arrays import Range, SizesMet, at_most, beyond, integers_written, nature_of, range_of
from .integers import Integers
from .packing import guarded

T = TypeVar("T")


LONG = 32  # turns up to which a loop of constant count is written out,
WRITTEN_OUT = 48  # and names that they all bind
RAGGED = (
    "this array's size depends on an outer index",
    "make it as wide as the widest, and zero the rest: `[e if j < i else 0 for j in range(n)]`",
)
BY_DATA = (
    "data decide how often this loop runs",
    "loop to an `int` parameter, or the most that there may be, and choose in the loop: "
    "`for j in range(np.max(k) + 1): if j < 2 * k[i]: …`",
)
Pattern = str | tuple[Any, ...]  # the names of a loop, `i` or `(i, (a, b))`


@dataclass(frozen=True)
class Iteration:
    """What a loop runs over: `item` of each index below `length`; or `fixed`, items that are written
    out. Where data choose the items, `taken` says of which indices, 1 or 0.
    """

    length: Affine
    item: Callable[[Affine], Any]
    fixed: tuple[Any, ...] | None = None
    taken: Callable[[Affine], Value] | None = None


@dataclass(frozen=True)
class Loop:
    """A loop: its place, the names that it goes over, what it runs over, and its body, a function of these. A statement has names
    that it changes, too, whose values the body takes behind the others; `plain` are those that it assigns anew.
    """

    k: int
    pattern: Pattern
    bounds: Any
    body: Callable[..., Any]
    names: tuple[str, ...] = ()
    plain: tuple[bool, ...] = ()
    values: tuple[Any, ...] = ()

    @property
    def taken(self) -> Callable[[Affine], Value] | None:
        """Where data choose what it runs over, of which indices."""
        return self.bounds.taken if isinstance(self.bounds, Iteration) else None


class Loops(Integers):
    """`⊞`, `Σ` and `∃` from Python's loops."""

    # What classes that extend this one define
    rows_in_a_row: Callable[[Value, int], Value]
    table_of: Callable[[Data], Value]
    entry_at: Callable[[Any, Affine], Any]
    written_out: Callable[[list[Any]], Any]
    computed: Callable[[str, Any, Any], Value]

    def each(self, k: int, value: Any) -> Iteration:
        """Return what a loop over a value iterates over."""
        self.at(k)
        return self.iteration(value)

    def iteration(self, value: Any) -> Iteration:
        """Return what a loop iterates over: an array's entries, or the parts of a container in order."""
        if isinstance(value, Iteration):
            return value
        if is_tuple(value):
            value = self.structured(value)
        if isinstance(value, dict | list | tuple | str | set | frozenset):
            return Iteration(Affine.of(len(value)), self._nowhere, tuple(value))
        if (written := integers_written(value)) is not None:
            return Iteration(Affine.of(len(written)), self._nowhere, tuple(written))
        if (tuples := tuples_of(value)) is not None:
            value = self.table_of(tuples)
        if isinstance(value, Value) and isinstance(value.type, Array):
            array = cast("Value", self._bind("items", value))
            return Iteration(value.type.size, lambda a: self.entry_within(array, a))
        if isinstance(value, Selected) and value.length is not None:
            items = self.named(value.array, "items")
            return Iteration(value.length, lambda a: self.entry_within(items, a))
        if isinstance(value, Selected) and not value.pairs:
            return self._over_chosen(value)
        if isinstance(value, UnreadableValue):
            raise UnreadableError(value, self.place)
        raise self.error(
            f"{kind(value)} has no entries to loop over", "loop over `range(n)`, or an array"
        )

    def _over_chosen(self, value: Selected) -> Iteration:
        """Return an iteration over all entries of a selection, each with whether it is taken."""
        axes = len(self.dims(value.mask)) - 1
        array, mask = value.array, value.mask
        if axes:
            array, mask = self.rows_in_a_row(array, axes), self.rows_in_a_row(mask, axes)
        array, mask = self.named(array, "items"), self.named(mask, "taken")
        truth = Nature(numbers="bool")
        return Iteration(
            self.dims(mask)[0],
            lambda a: self.entry_within(array, a),
            None,
            lambda a: self.entry_within(mask, a).of_nature(truth),
        )

    def only_taken(self, over: Iteration) -> Iteration:
        """Return an iteration all of whose items are taken; TensorError if data choose items."""
        if over.taken is not None:
            raise self.error(
                "entries that a condition chooses, beside others or in an order",
                "loop over all, and choose in the iteration: `if x[i] > 0: …`",
            )
        return over

    def _nowhere(self, _: Affine) -> Any:
        """Raise TensorError: the items of a literal container have no symbolic index."""
        raise self.error("a tuple's part is chosen by a constant", "write `t[0]` or unpack it")

    def structured(self, value: Value) -> Any:
        """Return a tuple's parts, in the list, dictionary or tuple that the user knows."""
        return tuple(self.parts(value))

    def zipped(self, *values: Any) -> Iteration:
        """Return `zip` of iterations, as long as the shortest."""
        each = [self.only_taken(self.iteration(value)) for value in values]
        fixed = [one.fixed for one in each if one.fixed is not None]
        length = reduce(self._shorter, (one.length for one in each))
        if not fixed:
            return Iteration(length, lambda a: tuple(one.item(a) for one in each))
        places = range(length.constant if length.is_constant else min(map(len, fixed)))
        rows = tuple(
            tuple(one.item(Affine.of(j)) if one.fixed is None else one.fixed[j] for one in each)
            for j in places
        )
        return Iteration(length, self._nowhere, rows)

    def _shorter(self, m: Affine, n: Affine) -> Affine:
        """Return the smaller of two sizes."""
        if (m - n).is_constant:
            return m if (m - n).constant < 0 else n
        return self.same(m, n)

    def enumerated(self, value: Any, start: Any = 0) -> Iteration:
        """Return `enumerate(value, start)`."""
        one, first = self.only_taken(self.iteration(value)), self.affine(start, "`enumerate`")
        if one.fixed is not None:
            numbered = tuple((start + j, item) for j, item in enumerate(one.fixed))
            return Iteration(one.length, self._nowhere, numbered)
        return Iteration(one.length, lambda a: (Index(self, first + a), one.item(a)))

    def backwards(self, value: Any) -> Iteration:
        """Return `reversed(value)`."""
        one = self.iteration(value)
        if one.fixed is not None:
            return Iteration(one.length, self._nowhere, one.fixed[::-1])
        taken = one.taken
        return Iteration(
            one.length,
            lambda a: one.item(one.length - 1 - a),
            None,
            None if taken is None else lambda a: taken(one.length - 1 - a),
        )

    def ranged(self, *bounds: Any) -> Iteration:
        """Return `range(…)` as an iteration."""
        start, length, step = self._range_parts(bounds)
        if start.is_constant and length.is_constant:
            ints = range(start.constant, start.constant + step * length.constant, step)
            return Iteration(length, lambda a: Index(self, start + a * step), tuple(ints))
        return Iteration(length, lambda a: Index(self, start + a * step))

    def fitted(self, pattern: Pattern, item: Any) -> tuple[Any, ...]:
        """Return the values of a pattern's names, in order."""
        if isinstance(pattern, str):
            return (item,)
        found: list[Any] = []
        for part, inner in zip(*self.unpacked(pattern, item), strict=True):
            found += self.fitted(part, inner)
        return tuple(found)

    def unpacked(self, pattern: tuple[Any, ...], value: Any) -> tuple[list[Pattern], list[Any]]:
        """Return the parts of a pattern beside those of a value; `*rest` takes several as a list."""
        parts = self._several(value, pattern)
        stars = [j for j, part in enumerate(pattern) if isinstance(part, str) and part[0] == "*"]
        if not stars:
            if len(parts) != len(pattern):
                raise self.error(f"{len(parts)} parts do not fit {len(pattern)} names")
            return list(pattern), parts
        (j,), after = stars, len(pattern) - stars[0] - 1
        if len(parts) < len(pattern) - 1:
            raise self.error(f"{len(parts)} parts do not fit {len(pattern)} names")
        end = len(parts) - after
        return [*pattern[:j], pattern[j][1:], *pattern[j + 1 :]], [
            *parts[:j],
            parts[j:end],
            *parts[end:],
        ]

    def unpack(self, k: int, pattern: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
        """Return the values of the names to which an assignment unpacks, in order."""
        self.at(k)
        found = self.fitted(pattern, value)
        return tuple(
            self._bind(name, part) for name, part in zip(flat(pattern), found, strict=True)
        )

    def _several(self, value: Any, pattern: tuple[Any, ...]) -> list[Any]:
        """Return the parts of a value that is unpacked to a pattern."""
        if is_tuple(value):
            value = self.structured(cast("Value", self._bind(pattern_name(pattern), value)))
        if isinstance(value, Value) and isinstance(value.type, Array):
            size = value.type.size
            if any(isinstance(part, str) and part[0] == "*" for part in pattern):
                entries = self.number(size)
            else:
                entries = self.same(size, Affine.of(len(pattern))).constant
            array = cast("Value", self._bind(pattern_name(pattern), value))
            return [self.entry_within(array, Affine.of(j)) for j in range(entries)]
        if isinstance(value, Iteration):
            value = value.fixed or [
                value.item(Affine.of(j)) for j in range(self.number(value.length))
            ]
        if not isinstance(value, dict | list | tuple):
            raise self.error(f"{kind(value)} does not unpack", "read its entries by index")
        return list(value)

    def range(self, k: int, function: Any, *bounds: Any) -> tuple[Any, ...] | Iteration:
        """Return the bounds of a `range`, or an iteration if a bound is computed from data."""
        bounds = self.builtin(k, "range", function, bounds)
        computed = (x for x in bounds[:2] if isinstance(x, Value) and numbers_of(x) == "int")
        if any(self.count_before_call(bound) is None for bound in computed):
            return self.mask_widest_range(bounds) or bounds
        return bounds

    def builtin(self, k: int, name: str, function: Any, value: T) -> T:
        """Return the value of a call of a built-in; TensorError if its name means another function here."""
        self.at(k)
        if function is not getattr(builtins, name):
            other = getattr(function, "__name__", repr(function))
            raise self.error(
                f"`{name}` is `{other}` here, not Python's own", "give that another name"
            )
        return value

    def _range_parts(self, bounds: tuple[Any, ...]) -> tuple[Affine, Affine, int]:
        """Return the start, the length and the step of a `range`."""
        if not 1 <= len(bounds) <= 3:
            raise self.error("`range` takes one to three integers")
        for bound in bounds[:2]:
            known = isinstance(bound, Value) and self.count_before_call(bound) is not None
            sought = sought_of(bound)
            read = isinstance(bound, Value) or (sought is not None and sought.division is None)
            if read and not known:
                raise self.error(*BY_DATA)
        ends = [self.affine(bound, "`range`") for bound in bounds[:2]]
        start, stop = (Affine.of(0), ends[0]) if len(ends) == 1 else ends
        step = self.affine(bounds[2], "a step") if len(bounds) == 3 else Affine.of(1)
        if not step.is_constant or step.constant == 0:
            raise self.error("a step is a constant other than 0")
        if step.constant < 0:
            start, length, k = self._range_parts(
                (Index(self, start * -1), Index(self, stop * -1), -step.constant)
            )
            return start * -1, length, -k
        length, k = stop - start, step.constant
        if k > 1:
            rounded = length + (k - 1)
            if any(c % k for _, c in rounded.terms):
                rounded = Affine.of(self.number(rounded))
            terms = tuple((name, c // k) for name, c in rounded.terms)
            length = Affine(terms, rounded.constant // k)
        if length.is_constant:
            length = Affine.of(max(0, length.constant))
        return start, length, k

    def ensure_nonnegative_count(self, size: Affine) -> None:
        """Require that a loop's length is not negative: where `range(2, n)` may be empty, n becomes a number."""
        if not (at_most(Affine.of(0), size) and self.integers.isdisjoint(size.names)):
            self.looked("the number of iterations", "the loop", size, size + 1, clips=True)

    def _binder(
        self, name: str, bounds: tuple[Any, ...], ragged: bool
    ) -> tuple[str, Affine, Affine, Predicate]:
        """Return a fresh index, its size, what the Python variable means, and the guard for a size that depends on outer
        indices.
        """
        bounds, between = self._enclosing_bounds(bounds)
        start, length, step = self._range_parts(bounds)
        index = self.name(reserve_generated_names(name))
        self.spelt[index] = name
        meaning = start + Affine.of(index) * step
        outer = {i: n for i, n in self.binders if ragged or i not in self.sizing}
        widest = length
        for i in length.names & outer.keys():
            end = outer[i] - 1 if length.coefficient(i) > 0 else Affine.of(0)
            widest = widest.substitute({i: end})
        if between is not None:
            if not ragged:
                raise self.error(*RAGGED)
            within = between(meaning)
            return index, widest, meaning, conj(compare("<", index, length), within)
        if widest == length:
            return index, length, meaning, TRUE
        if not ragged:
            raise self.error(*RAGGED)
        if widest.names & outer.keys():
            raise self.error("this range depends on indices in a way that has no simple bound")
        return index, widest, meaning, compare("<", index, length)

    def _enclosing_bounds(
        self, bounds: tuple[Any, ...]
    ) -> tuple[tuple[Any, ...], Callable[[Affine], Predicate] | None]:
        """Return bounds such as `max(0, i - k), min(n, i + k + 1)` as one start and one stop, and the condition that the others
        impose on the loop's variable; None if there are none.
        """
        step = bounds[2] if len(bounds) == 3 else 1
        pair: tuple[Any, Any] = (0, bounds[0]) if len(bounds) == 1 else (bounds[0], bounds[1])
        if not any(map(self._indices_decide, pair)):
            return bounds, None
        pace = affine_of(step)
        if pace is None or not pace.is_constant or pace.constant == 0:
            raise self.error("a step is a constant other than 0")
        if pace.constant == 1 and (segment := self.segment(*pair)) is not None:
            begin, end, holds = segment
            return (Index(self, begin), Index(self, end)), holds
        up, stride = pace.constant > 0, abs(pace.constant)
        kinds = ("maximum", "minimum") if up else ("minimum", "maximum")
        starts, stops = (
            self._extremes_of_bound(bound, kind) for bound, kind in zip(pair, kinds, strict=True)
        )
        first, last = (bound if sought_of(bound) else None for bound in pair)
        if stride > 1 and len(starts) > 1:
            raise self.error(
                "a range with a step that begins at a `max` or `min` of indices",
                "write an `if` in the loop: `if i - k <= j < i + k: …`",
            )
        if first is None:
            stride = 1
        elif stride > 1:  # over each integer, of which those count that are so many steps away
            step = 1 if up else -1
        # The fewer iterations the better; that is sure where the number is the same for all indices.
        fixed = [
            (a, b)
            for a in starts
            for b in stops
            if not (b - a).names & {i for i, _ in self.binders}
        ]
        a, b = min(
            fixed or [(starts[0], stops[0])], key=lambda ends: len((ends[1] - ends[0]).names)
        )

        def among(away: Affine) -> Predicate:
            """Whether so far away from the start is a multiple of the step."""
            if stride == 1:
                return TRUE
            name = self.name("q")
            count = b - a if up else a - b
            return exists(name, count, compare("=", away, Affine.of(name) * stride))

        def begins(meaning: Affine) -> Callable[[Affine], Predicate]:
            def begun(start: Affine) -> Predicate:
                low, high = (start, meaning) if up else (meaning, start)
                return conj(compare("≤", low, high), among(high - low))

            return begun

        def ends(meaning: Affine) -> Callable[[Affine], Predicate]:
            return lambda stop: compare("<", *((meaning, stop) if up else (stop, meaning)))

        def between(meaning: Affine) -> Predicate:
            sides = (first, starts, begins(meaning)), (last, stops, ends(meaning))
            return conj(*(p for side in sides for p in self._predicates_of_bound(*side)))

        return (Index(self, a), Index(self, b), step), between

    def mask_widest_range(self, bounds: Any) -> Iteration | None:
        """Return a range whose bounds data decide as the widest possible range, with whether each integer is taken.

        None for other ranges, and if no size bounds it.
        """
        if isinstance(bounds, Iteration) or not any(self._by_data(bound) for bound in bounds[:2]):
            return None
        first, last = (0, bounds[0]) if len(bounds) == 1 else bounds[:2]
        step = bounds[2] if len(bounds) == 3 else 1
        if not isinstance(step, int) or step == 0:
            return None
        up = step > 0
        low, high = (
            self._range_of_bound(first if up else last),
            self._range_of_bound(last if up else first),
        )
        if low is None or high is None:
            return None
        start, stop = (low[0], high[1] - 1) if up else (high[1] - 1, low[0])
        pace = (1 if up else -1) if self._by_data(first) else step
        widest = self.ranged(Index(self, start), Index(self, stop), pace)

        def taken(a: Affine) -> Value:
            here = widest.item(a)
            begun = self._compare("<=" if up else ">=", first, here)
            not_ended = self._compare("<" if up else ">", here, last)
            within = self._both(begun, not_ended)
            if pace != step:
                away = self.computed("%", self.computed("-", here, first), abs(step))
                within = self._both(within, self._compare("==", away, 0))
            return self.truth(within)

        return Iteration(widest.length, widest.item, None, taken)

    def _by_data(self, bound: Any) -> bool:
        """Whether data decide a bound."""
        return isinstance(bound, Value) or sought_of(bound) is not None

    def _range_of_bound(self, bound: Any) -> Range | None:
        """Return between which sizes a bound of a range lies, whatever the data are; None if unknown."""
        sought = sought_of(bound)
        if sought is None or sought.within is not None:
            known = range_of(bound)
            return self.extent(bound.term) if known is None and isinstance(bound, Value) else known
        least, most = sought.least(), sought.most()
        return None if least is None or most is None else (least, most + 1)

    def _indices_decide(self, bound: Any) -> bool:
        """Whether indices decide which of several affine expressions a bound is."""
        if not several_cases(bound):
            sought = sought_of(bound)
            return sought is not None and (sought.data is not None or sought.most() is not None)
        names = frozenset[str]().union(*(p.names for p, _ in bound.cases or ()))
        return bool(names & {i for i, _ in self.binders}) and self.one_case(bound) is None

    def _predicates_of_bound(
        self, bound: Index | None, bounds: Sequence[Affine], holds: Callable[[Affine], Predicate]
    ) -> Sequence[Predicate]:
        """Return what a bound requires of a loop's variable: once for a non-affine integer, or for each of several affine
        expressions.
        """
        if bound is None:
            return [holds(a) for a in bounds]
        found = self.is_some(bound, holds)
        assert found is not None  # for it has ends
        return [found]

    def _extremes_of_bound(self, bound: Any, extreme: str) -> Sequence[Affine]:
        """Return the affine expressions whose maximum or minimum a bound is, or between which it lies."""
        if not self._indices_decide(bound):
            return (self.affine(bound, "`range`"),)
        if (sought := sought_of(bound)) is not None:
            end = sought.most() if extreme == "minimum" else sought.least()
            return (end or self.affine(bound, "`range`"),)
        if bound.extreme != extreme:
            raise self.error(
                "this range's bound is one of several, and indices decide which",
                "begin at a `max` and end at a `min`; or write an `if` in a longer loop: "
                "`for j in range(n): if i - 1 <= j: …`",
            )
        ends: Sequence[Affine] = bound.ends
        return ends

    def generate(self, k: int, pattern: Pattern, bounds: Any, body: Callable[..., Any]) -> Any:
        """Return the array `⊞` for `[body(…) for pattern in bounds]`. Its size may not depend on an outer index."""
        self.at(k)
        loop = Loop(k, pattern, bounds, body)
        return self.or_spelt_out(
            loop,
            lambda: self._generate_array(loop),
            lambda iterations: self.written_out([body(*items) for items in iterations]),
        )

    def _generate_array(self, loop: Loop) -> Value:
        """Return the array of a comprehension with one index."""
        if loop.taken is not None:
            raise self.error(*BY_DATA)
        index, size, item, _ = self.open_iteration(loop, ragged=False)
        self.ensure_nonnegative_count(size)
        with self.scope(Binder(index, size)) as scope:
            entry = loop.body(*item())
            term, layout = self.pack(entry)
        if layout is not None and len(layout) == 1:
            raise self.error("an array of tuples of one part", "leave the tuple out")
        self.at(loop.k)
        made = Value(self, Gen(index, size, lets(scope.bindings, term)), layout)
        nature = nature_of([entry])
        within = beyond(nature.within, index, size)
        return made.of_nature(replace(nature, lists=1 + lists_of(entry), within=within))

    def dictionary(self, k: int, pattern: Pattern, bounds: Any, body: Callable[..., Any]) -> Any:
        """Return `{key: value for pattern in bounds}` with literal keys."""
        self.at(k)
        iterations = self.constant_iterations(pattern, bounds) or []
        pairs = [pair for pair in (body(*items) for items in iterations) if pair is not None]
        if not iterations or not all(isinstance(key, str | int) for key, _ in pairs):
            raise self.error(
                "the data decide how many parts this dictionary has",
                "use arrays, indexed by `range`",
            )
        return self._bind("part", dict(pairs))

    def or_spelt_out(
        self, loop: Loop, usual: Callable[[], T], spelt_out: Callable[[list[tuple[Any, ...]]], T]
    ) -> T:
        """Trace a loop over an index; if that is refused, and the loop is short, trace its iterations one by one."""
        if (iterations := self.fixed_iterations(loop.pattern, loop.bounds)) is not None:
            return spelt_out(iterations)
        before = self.so_far()
        try:
            return usual()
        except TensorError as error:
            refused = error
        self.at(loop.k)
        self.back_to(before)
        try:
            iterations = self.constant_iterations(loop.pattern, loop.bounds)
            if iterations is not None:
                return spelt_out(iterations)
        except SizesMet as met:
            met.refused = refused
            raise
        except TensorError:
            pass
        raise refused

    def fixed_iterations(self, pattern: Pattern, bounds: Any) -> list[tuple[Any, ...]] | None:
        """Return the values of a loop's names in each iteration, if its items are literal; else None."""
        fixed = bounds.fixed if isinstance(bounds, Iteration) else None
        return None if fixed is None else [self.fitted(pattern, item) for item in fixed]

    def constant_iterations(self, pattern: Pattern, bounds: Any) -> list[tuple[Any, ...]] | None:
        """Return the values of a loop's names in each iteration, if its items are literal, or its length is a constant or
        integer parameter and small; else None.
        """
        if (fixed := self.fixed_iterations(pattern, bounds)) is not None:
            return fixed
        if isinstance(bounds, Iteration):
            if bounds.taken is not None:
                return None
            start, length, step, item = Affine.of(0), bounds.length, 1, bounds.item
        else:
            if any(map(self._indices_decide, bounds)):
                return None
            start, length, step = self._range_parts(bounds)

            def item(a: Affine) -> Any:
                return a.constant

        if not {*start.names, *length.names} <= self.integers:
            return None
        first, count = self.number(start), self.number(length)
        if count > LONG:
            return None
        return [self.fitted(pattern, item(Affine.of(first + step * j))) for j in range(count)]

    def open_iteration(
        self, loop: Loop, ragged: bool
    ) -> tuple[str, Affine, Callable[[], tuple[Any, ...]], Predicate]:
        """Return an iteration's fresh index, its size, the values of the loop's names, and the guard of `_binder`."""
        over = isinstance(loop.bounds, Iteration)
        name = "i" if over else pattern_name(loop.pattern)
        bounds = (Index(self, loop.bounds.length),) if over else loop.bounds
        index, size, meaning, within = self._binder(name, bounds, ragged)
        item = loop.bounds.item if over else self.index
        return index, size, lambda: self.fitted(loop.pattern, item(meaning)), within

    def sum(self, k: int, pattern: Pattern, bounds: Any, body: Callable[..., Any]) -> Any:
        """Return the sum `Σ` for `sum(body(…) for pattern in bounds)`, of scalars or of arrays of one shape."""
        self.at(k)
        loop = self._with_tests(Loop(k, pattern, bounds, body), self.given)
        return self.or_spelt_out(
            loop,
            lambda: self._sum_over_index(loop),
            lambda iterations: self.added_up([loop.body(*items) for items in iterations]),
        )

    def _with_tests(
        self, loop: Loop, guarded: Callable[[int, Any, Callable[[], Any]], Any]
    ) -> Loop:
        """Return a loop over chosen items as one over all, with the body under a condition by `guarded`."""
        if (taken := loop.taken) is None:
            return loop
        over = loop.bounds
        pairs = Iteration(over.length, lambda a: (taken(a), over.item(a)))

        def chosen(test: Any, *items: Any) -> Any:
            return guarded(loop.k, test, lambda: loop.body(*items))

        return replace(loop, pattern=("taken", loop.pattern), bounds=pairs, body=chosen)

    def _sum_over_index(self, loop: Loop) -> Value:
        """Return the sum of a loop with one index."""
        index, size, item, within = self.open_iteration(loop, ragged=True)
        with self.scope(Binder(index, size), within) as scope:
            term, _ = self.pack(loop.body(*item()))
        self.at(loop.k)
        return self.summed(index, size, guard(within, lets(scope.bindings, term)))

    def added_up(self, values: Sequence[Any]) -> Any:
        """Return the sum of several values."""
        return reduce(lambda a, b: self.computed("+", a, b), values) if values else 0

    def summed(self, index: str, size: Affine, term: Term) -> Value:
        """Return `Σ index:size. term`, entry by entry for an array."""
        if term.type == REAL:
            return Value(self, Sum(index, size, term))
        if not isinstance(term.type, Array):
            raise self.error("a sum of tuples", "sum each part by itself")
        parts = Value(self, Gen(index, size, term))
        dims = self.dims(parts)[1:]
        parts = self.once(parts, "terms")

        def entry(*here: Affine) -> Value:
            return self.total((size,), lambda i: self.read(parts, i, *here), parts)

        return self.build(dims, entry, parts)

    def given(self, k: int, condition: Any, body: Callable[[], Any]) -> Value:
        """Return a sum's summand under the `if` of its comprehension."""
        self.at(k)
        p, data = TRUE, None
        if self._on_data(condition):
            p, data = self.parts_of_truth(condition)
        else:
            p = self.condition(condition)
        with self.scope(condition=p) as scope:
            if data is None:
                value = body()
            else:
                with self.where(lambda: data):
                    value = body()
                value = self.chosen(data, value, 0)
            term, _ = self.pack(value)
        return Value(self, guarded(p, lets(scope.bindings, term)))

    def any(self, k: int, pattern: Pattern, bounds: Any, body: Callable[..., Any]) -> Any:
        """Return `any(…)`: `∃` of a condition that indices decide, or `np.any` of one that data decide."""
        self.at(k)
        loop = self._with_tests(Loop(k, pattern, bounds, body), self.and_then)
        if (iterations := self.fixed_iterations(loop.pattern, loop.bounds)) is not None:
            return reduce(self._either_of, [loop.body(*items) for items in iterations], False)
        index, size, item, within = self.open_iteration(loop, ragged=True)
        with self.scope(Binder(index, size), within) as scope:
            holds = loop.body(*item())
            if not self._on_data(holds):
                return Condition(self, exists(index, size, conj(within, self.condition(holds))))
            term = guarded(within, lets(scope.bindings, holds.term))
        return as_truth(self.built("any", as_truth(Value(self, Gen(index, size, term)))))

    def all(self, k: int, pattern: Pattern, bounds: Any, body: Callable[..., Any]) -> Any:
        """Return `all(…)` as `¬∃¬`."""
        none = self.any(k, pattern, bounds, lambda *names: self.negated(k, body(*names)))
        return self.negated(k, none)


def flat(pattern: Pattern) -> list[str]:
    """Return the names of a pattern."""
    if isinstance(pattern, str):
        return [pattern.strip("*")]
    return [name for part in pattern for name in flat(part)]


def pattern_name(pattern: Pattern) -> str:
    """Return one name for a pattern: `a_b`."""
    return "_".join(flat(pattern))
