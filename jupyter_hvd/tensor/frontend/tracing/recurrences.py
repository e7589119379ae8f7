"""Loops that carry values: where an iteration reads what the one before has left.

A `for` statement is traced as one that only adds up; `Carried` stands for each name that it changes, and
may not be read. Where it is, the loop is traced once more by `Recurrences`, with a variable for each value
that it carries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard, cast

from ...language.affine import Affine
from ...language.errors import TensorError
from ...language.pairs import Laid, to_pairs
from ...language.predicates import TRUE, Predicate, compare, conj
from ...language.terms import (
    At,
    Binder,
    Const,
    Gen,
    Iterate,
    Pair,
    Proj,
    Term,
    Var,
    components,
    gens,
    lets,
    number_binders,
)
from ...language.types import Layout, Product, Type, array, dimensions
from ..tracers import (
    Index,
    Nature,
    Shares,
    UnreadableError,
    UnreadableValue,
    Value,
    affine_of,
    describe,
    lists_of,
    numbers_of,
)
from .aliasing import arrays
from .arrays import Range, SizesMet, beyond, joined_ranges, nature_of, range_of
from .changing_sizes import Lengths, Steps, at_constant_sizes, steps_between
from .entries import Entries
from .loops import LONG as LONG
from .loops import RAGGED, Iteration, Loop
from .loops import WRITTEN_OUT as WRITTEN_OUT
from .packing import guarded

_NOTHING: frozenset[str] = frozenset()
_NOTHING_SHARED: Shares = frozenset()
_NO_VALUE = "this name has no value yet", "give it one before: `s = 0`, `y = []`, `y = np.zeros(n)`"
UNSET = UnreadableValue(*_NO_VALUE)
LOCAL = UnreadableValue(
    *_NO_VALUE
)  # of a name that occurs in one loop only, which leaves no value there
#: What may be any value where nothing reads it: joined with another value, it is that one.
ANYTHING = UnreadableValue("this name has no value unless the loop returns one", "")


@dataclass
class Change:
    """What one turn of a loop does to a name: `op` is `+`, `*`, `append`, or `=` and `+=` at places
    `at` of an array, whose entries `places` are where `condition` holds. `rebinds` where the array is not
    changed in place, `s = s + e`.
    """

    op: str
    term: Term
    condition: Predicate = TRUE
    places: tuple[str, ...] = ()
    at: tuple[Affine, ...] = ()
    rebinds: bool = False
    under: Predicate = TRUE  # of its conditions those on which it happens
    masks: tuple[Value, ...] = ()  # conditions on data on which something is appended
    chosen: Term | None = None  # which entries of a block are appended, 1 or 0; None where all are
    axes: int = 0  # of a block that an inner loop appends, one entry after the other
    entry: Value | None = None  # what is appended, with what is known of it
    numbers: str = ""  # the type of what is added


class InOrder(TensorError):  # noqa: N818 - another loop may do
    """The reason why a loop's iterations are not independent; a loop that carries values has no such limit."""


class NoSuchEntry(TensorError):  # noqa: N818 - the program reads beyond a list
    """What is refused of a loop however it is traced."""


class Carried(UnreadableValue):
    """A name that a loop changes, while it is traced; `plain` where it is assigned anew, not added
    to.
    """

    def __init__(self, name: str, start: Any, depth: int, masked: int, plain: bool) -> None:
        super().__init__(
            f"`{name}` has the value that the previous iteration stored there",
            "give it a value before the loop: `h = np.zeros(n)`",
        )
        self.name = name
        self.start = start
        self.depth = depth
        self.masked = masked
        self.plain = plain
        self.changes: list[Change] = []
        self.before: Value | None = (
            None  # by a name of its own, for what reads an entry and changes it
        )

    @property
    def in_place(self) -> bool:
        """Whether the loop changes, in place, the array that the name has before the loop."""
        return any(not change.rebinds for change in self.changes)

    @property
    def changes_around(self) -> bool:
        """Whether this loop, or one around it, has already changed the array."""
        around = isinstance(self.start, Carried) and self.start.changes_around
        return bool(self.changes) or around

    @property
    def begun(self) -> Any:
        """The name's value before the outermost loop."""
        return self.start.begun if isinstance(self.start, Carried) else self.start

    def __getattr__(self, name: str) -> Any:
        if name in ("shape", "ndim", "size"):  # no turn changes these
            return getattr(self.start, name)
        if name == "at":  # of `y = y.at[i].set(e)` a loop that carries y makes the new array
            raise (InOrder if self.plain else TensorError)(
                f"`{self.name}.at[…]` in a loop",
                f"write `{self.name}[i] = …` or `{self.name}[i] += …`: here that defines an array",
            )
        return super().__getattr__(name)


class Appended(UnreadableValue):
    """A list that a loop which carries values appends to, while it is traced: `first` is the array of its entries before, if
    any, and `value` what the turn appends. Where conditions decide whether it does, or it appends several, that is a block of
    `axes` axes, of which entries are appended where `chosen` is 1. `index` counts the turns. The loop carries `lasts`, the
    last entries that a turn reads, the very last first.
    """

    def __init__(
        self, name: str, first: Value | None, depth: int, masked: int, index: str = ""
    ) -> None:
        super().__init__(
            f"`{name}` is a list that this loop appends to",
            "give the value that an iteration reads a name of its own, `total += e`; or fill an array, "
            "`y[k] = e`, and read `y[:k]`",
        )
        self.name = name
        self.first = first
        self.depth = depth
        self.masked = masked
        self.index = index
        self.changes: list[Change] = []
        self.value: Value | None = None
        self.indexed = False  # whether a turn reads an entry by its index from the start
        self.is_measured = False  # whether a turn asks how long it is
        self.chosen: Appended | None = None
        self.axes = 0
        self.lasts: list[State] = []

    def from_the_end(self, index: Any) -> int | None:
        """Return which entry from the end is at a position, 1 for the last: of `y[-2]`, or an equal `y[i - 2]`; None if that is
        not constant.
        """
        if isinstance(index, int) and index < 0:
            return -index
        at = affine_of(index)
        if at is None or self.first is None:
            return None
        self.indexed = True
        count = len(self.first.written or ()) + len(self.changes)
        back = Affine.of(self.index) + count - at
        return back.constant if back.is_constant else None


@dataclass(frozen=True)
class State:
    """A value that a loop carries: its name in the source, how it begins, its parts as the body reads
    them, and how it is laid out; or what is appended to a list. Of what changes its size, `lengths` says of each part how.
    """

    name: str
    start: Term
    parts: tuple[Var, ...]
    layout: Layout
    list: Appended | None = None
    lengths: tuple[Lengths, ...] = ()

    @property
    def begins(self) -> tuple[Term, ...]:
        """The initial values of the parts."""
        return parts_of(self.start)

    def made_of(self, parts: Iterable[Term]) -> Term:
        """Return the value that consists of these parts."""
        rest = iter(parts)

        def build(type_: Type) -> Term:
            if isinstance(type_, Product):
                first = build(type_.first)
                return Pair(first, build(type_.second))
            return next(rest)

        return build(self.start.type)


@dataclass(frozen=True)
class Known:
    """Assumptions about what a loop carries, until an iteration contradicts them: ranges of integers; which values are
    integers, conditions or lists; by how much sizes change (`steps`). Lists that are `filled` are not appended to.
    """

    ranges: Sequence[Range | None] = ()
    filled: frozenset[str] = _NOTHING
    steps: Mapping[str, Steps] = field(default_factory=dict)
    kinds: Sequence[Nature] = ()


NOTHING_YET = Known()
READ_BY_NAME = "give what is read a name of its own: `last = e`, `y.append(last)`"


class Recurrences(Entries):
    """`for t in range(T): h = f(h, x[t])`: `iterate`."""

    # What classes that extend this one define
    block_of: Callable[[str, Sequence[Change]], tuple[Value, Value | None, int] | None]
    _appended_to: Callable[[str, Any, Value, Value | None, int], Any]

    def __init__(self) -> None:
        super().__init__()
        self.open: list[Carried | Appended] = []  # whose changes branches collect
        self.borrowed: set[str] = set()  # what a loop carries that begins as the caller's
        self.every_index: set[str] = set()  # of loops whose turns change sizes
        self.lists: dict[str, Appended] = {}  # what a loop carries that begins as a written list

    def one_by_one(self, loop: Loop) -> tuple[Any, ...]:
        """Trace a loop whose iterations read what earlier ones left, as `iterate`. Carried values keep their size, or change it
        by a constant.
        """
        before = self.so_far()
        try:
            return self._trace_carrying(loop)
        except NoSuchEntry:
            raise
        except TensorError as error:
            refused = error
        self.at(loop.k)
        self.back_to(before)
        if steps := self._steps_of_sizes(loop):
            before = self.so_far()
            self.at(loop.k)
            with suppress(TensorError):
                return self._trace_carrying(loop, Known(steps=steps, filled=frozenset(steps)))
            self.at(loop.k)
            self.back_to(before)
        raise refused

    def _steps_of_sizes(self, loop: Loop) -> dict[str, Steps]:
        """Return by how much the first iteration makes carried values longer, for those whose size changes."""
        if isinstance(loop.bounds, Iteration):
            first = loop.bounds.item(Affine.of(0))
        else:
            first = self.index(self._range_parts(self._enclosing_bounds(loop.bounds)[0])[0])
        before, found = self.so_far(), dict[str, Steps]()
        with suppress(TensorError, SizesMet), self.scope():
            before_turn = [self._parts_of_value(value) for value in loop.values]
            left = loop.body(*self.fitted(loop.pattern, first), *loop.values)
            for name, old, new in zip(loop.names, before_turn, left, strict=False):
                if old and (steps := steps_of(old, self._parts_of_value(new))):
                    found[name] = steps
        self.back_to(before)
        return found

    def _parts_of_value(self, value: Any) -> tuple[Term, ...]:
        """Return the terms that a value consists of; of anything but a tensor none."""
        return parts_of(self.pack(value)[0]) if isinstance(value, Value) else ()

    def _trace_carrying(self, loop: Loop, assumptions: Known = NOTHING_YET) -> tuple[Any, ...]:
        """Trace a loop that carries values, under assumptions; return the values of the names after it."""
        self.at(loop.k)
        so_far, names, values = self.so_far(), loop.names, loop.values
        filled, steps = assumptions.filled, assumptions.steps
        kinds = assumptions.kinds or [*map(kind_of, values)]
        ranges = list(assumptions.ranges) or [
            value.nature.within if isinstance(value, Value) else None for value in values
        ]
        index, size, item, within = self.open_iteration(loop, ragged=True)
        self.ensure_nonnegative_count(size)
        begun = tuple(
            self._pad_initial(
                self._make_initial(name, value, index, name in filled), steps, index, size
            )
            for name, value in zip(names, values, strict=True)
        )
        if steps and within != TRUE:
            raise self.error(*RAGGED)
        before = dict(self.memory.changes)
        with self.scope(Binder(index, size), within) as scope, self.counting_as_size(index, steps):
            around, self.open = self.open, [*self.lists.values(), *filter(_is_appended, begun)]
            try:
                left = loop.body(*item(), *map(self._value_in_iteration, begun, ranges, kinds))
            finally:
                self.open = around
            for list_ in filter(_is_appended, left):
                self._compute_appended(list_)
            if steps:
                left = self._pad_all(begun, left)
        self.at(loop.k)
        if any(x is ANYTHING and y is not x for x, y in zip(values, left, strict=False)):
            values = tuple(map(self._zeros_if_anything, values, left))
            self.back_to(so_far)
            return self._trace_carrying(
                replace(loop, values=values), replace(assumptions, kinds=())
            )
        again = None
        kept_kinds = [kind_of_both(x, kind_of(y)) for x, y in zip(kinds, left, strict=False)]
        wider = [
            range_ and joined_ranges([range_, beyond(range_of(value), index, size)])
            for range_, value in zip(ranges, left, strict=False)
        ]
        for list_ in filter(_is_appended, left):
            if list_.is_measured:
                raise UnreadableError(list_, self.place)
        if fixed := frozenset(filter(None, map(self._read_as_growing, begun, left))):
            again = replace(assumptions, filled=fixed | filled, ranges=())
        elif kept_kinds != kinds:
            again = replace(assumptions, kinds=kept_kinds, ranges=())
        elif wider != ranges:  # with what holds after a turn; then without
            again = replace(
                assumptions,
                kinds=kinds,
                ranges=[None] * len(wider) if assumptions.ranges else wider,
            )
        if again is not None:
            self.back_to(so_far)
            return self._trace_carrying(loop, again)
        # What a turn gives beyond what it carries is a list that begins with the loop.
        count = len(left)
        left = (*left, *(x.chosen for x in left if isinstance(x, Appended) and x.chosen))
        begun = (*begun, *left[len(begun) :])
        names = (*names, *(x.name for x in left[len(names) :]))
        for list_ in [x for x in left if isinstance(x, Appended)]:
            left = (*left, *self._last_entries(list_))
            begun, names = (*begun, *list_.lasts), (*names, *(x.name for x in list_.lasts))
        ranges += [None] * (len(left) - len(ranges))
        kinds = [*kinds, *[Nature()] * (len(left) - len(kinds))]
        outer = (*values, *[None] * (len(left) - len(values)))
        changed = {a for a, at in self.memory.changes.items() if before.get(a) != at}
        ends = within == TRUE and size.is_constant and size.constant > 0
        if ends:
            begun = tuple(map(self._begun_within, names, begun, left))
            for j, (old, value) in enumerate(zip(outer, left, strict=True)):
                if old is UNSET:
                    kinds[j], ranges[j] = kind_of(value), beyond(range_of(value), index, size)
        made = [self._next_value(one, value) for one, value in zip(begun, left, strict=True)]
        unchanged = [found is not None and _is_unchanged(*found) for found in made]
        read = _NOTHING.union(*(e.variables for _, e in scope.bindings))
        read = read.union(
            *(x[1].variables for x, y in zip(made, unchanged, strict=True) if x and not y)
        )
        outside = read - {x for x, _ in scope.bindings}
        self._changed_by_one_name(begun, left, changed, outside)
        carried = [
            None
            if not found or (same and not self._is_read(found[0], read))
            else self._keep_carried(*found, read)
            for found, same in zip(made, unchanged, strict=True)
        ]
        for one, found in zip(begun, carried, strict=True):
            if found and found[0].list and isinstance(one, State) and self._is_read(one, read):
                raise UnreadableError(found[0].list, self.place)
        twins = _find_twins([found for found in carried if found]) if within == TRUE else {}
        kept = [found for found in carried if found and found[0].parts[0].name not in twins]
        if not kept and all(unchanged):
            return values
        if not kept:
            raise self.error("nothing that this loop leaves can be carried on")
        bindings = scope.bindings
        if within != TRUE:
            kept = [(state, self._keep_beyond(within, state, e)) for state, e in kept]
            bindings = [(x, guarded(within, e)) for x, e in bindings]
        turn = lets(bindings, to_pairs([x for _, e in kept for x in parts_of(e)], Pair))
        if steps:
            turn = at_constant_sizes(turn, index, size)
        parts = [x.name for state, _ in kept for x in state.parts]
        starts = [e for state, _ in kept for e in state.begins]
        turns = Value(self, Iterate(index, size, tuple(parts), tuple(starts), turn))
        history = cast("Value", self._bind("history", turns)).term
        each = dict(zip(parts, components(history, len(parts)), strict=True))
        each |= {x: each[twin.parts[0].name] for x, twin in twins.items()}
        after = tuple(
            old
            if same
            else self._value_after(
                found[0], each, size, self._nature_after(value, range_, kind, index, size), twins
            )
            if found
            else Index(self, last.substitute({index: size - 1}))
            if ends and old is UNSET and (last := affine_of(value)) is not None
            else gone(name)
            for name, found, value, range_, kind, old, same in zip(
                names, carried, left, ranges, kinds, outer, unchanged, strict=True
            )
        )
        each_after: dict[int, Any] = {id(x): made for x, made in zip(left, after, strict=True)}
        return tuple(
            self._appended_to(name, value.first, made, each_after.get(id(value.chosen)), value.axes)
            if isinstance(value, Appended)
            and isinstance(made, Value)
            and (value.chosen or value.axes)
            else made
            for name, value, made in zip(names, left, after[:count], strict=False)
        )

    def _zeros_if_anything(self, value: Any, left: Any) -> Any:
        """Return the value that a name has before a loop: zeros where it may be any, of the type that an iteration leaves."""
        if value is not ANYTHING or left is ANYTHING:
            return value
        term, layout = self.pack(left)
        return Value(self, zero_of(term.type), layout).of_nature(kind_of(left))

    def _compute_appended(self, list_: Appended) -> None:
        """Compute what an iteration appends to a list."""
        if list_.value is not None and len(list_.changes) < 2:
            return
        block = self.block_of(list_.name, list_.changes)
        if block is not None:
            value, chosen, list_.axes = block
            list_.value = self.once(value, "entry")
            if chosen is not None:
                list_.chosen = Appended(f"{list_.name}_chosen", None, list_.depth, list_.masked)
                list_.chosen.value = self.once(chosen, "chosen")

    @contextmanager
    def counting_as_size(self, index: str, steps: Mapping[str, Steps]) -> Iterator[None]:
        """Treat a loop's index like a size within the loop, if sizes of carried values depend on it."""
        before = self.sizing
        if steps:
            self.sizing = before | {index}
            self.every_index.add(index)
        try:
            yield
        finally:
            self.sizing = before

    def _pad_initial(self, state: Any, steps: Mapping[str, Steps], index: str, size: Affine) -> Any:
        """Return a carried value at its largest size, if its size changes."""
        if not isinstance(state, State) or state.name not in steps:
            return state
        dims = [dimensions(part.type) for part in state.parts]
        each = zip(dims, steps[state.name], strict=True)
        lengths = tuple(Lengths(first, own, index, size) for first, own in each)
        for n in (n for own in lengths for n in own.after):
            self.looked(f"the size of {state.name} after the loop", state.name, n, n + 1)
        starts = [
            self._pad(Value(self, e), own.first, own.longest)
            for e, own in zip(state.begins, lengths, strict=True)
        ]
        parts = tuple(Var(x.name, e.type) for x, e in zip(state.parts, starts, strict=True))
        return replace(state, start=state.made_of(starts), parts=parts, lengths=lengths)

    def _pad(
        self,
        value: Value,
        sizes: Sequence[Affine],
        longest: Sequence[Affine],
        carried: Term | None = None,
    ) -> Term:
        """Return an array with zeros behind its entries: those of `carried`, so that only new entries change it."""
        if tuple(sizes) == tuple(longest):
            return value.term
        value = self.plainly(value)

        def entry(*at: Affine) -> Value:
            p = conj(*(compare("<", i, n) for i, n in zip(at, sizes, strict=True)))
            made = self.conditioned(p, self.read(value, *at))
            if carried is None:
                return made
            rest = self.read(Value(self, carried), *at)
            return self.plus_of(made, self.conditioned(self._negation(p), rest))

        return self.build(longest, entry, value).term

    def _truncate(self, e: Term, dims: Sequence[Affine]) -> Term:
        """Return the first entries of an array."""
        if tuple(dims) == dimensions(e.type):
            return e
        value = Value(self, e)
        return self.build(dims, lambda *at: self.read(value, *at), value).term

    def _pad_all(self, begun: Sequence[Any], left: Sequence[Any]) -> tuple[Any, ...]:
        """Return what an iteration leaves, with zeros up to the largest size of each carried value."""
        if any(isinstance(value, Appended) for value in left):
            raise self.error("a loop that appends to a list, and changes the size of an array")
        return (*map(self._pad_one, begun, left), *left[len(begun) :])

    def _pad_one(self, state: Any, value: Any) -> Any:
        """Return what an iteration leaves for one carried value, padded to its largest size."""
        if not isinstance(state, State) or not state.lengths:
            return value
        term, layout = self.pack(_listed_like(state.layout, value))
        parts = parts_of(term)
        if [dimensions(part.type) for part in parts] != [own.next for own in state.lengths]:
            raise self.error(
                f"`{state.name}` changes its size by a different number in each iteration"
            )
        with self.memory.as_it_was():  # for an append changes what is carried
            padded = [
                self._pad(Value(self, e), own.next, own.longest, x if own.grows else None)
                for e, own, x in zip(parts, state.lengths, state.parts, strict=True)
            ]
        return Value(self, state.made_of(padded), layout).of_nature(kind_of(value))

    def entry(self, k: int, array: Any, *indices: Any) -> Any:
        """Return an entry; the last entries of a list that the loop appends to are carried values."""
        list_ = self.lists.get(array.variable) if isinstance(array, Value) else array
        if isinstance(list_, Appended) and len(indices) == 1:
            back = list_.from_the_end(indices[0])
            if back is not None:
                self.at(k)
                return self._entry_before(list_, back)
        return super().entry(k, array, *indices)

    def _entry_before(self, list_: Appended, back: int) -> Any:
        """Return the entry of a growing list that is `back` positions from its end."""
        for change in reversed(list_.changes):
            if not self._happens(list_, change):
                raise self.error(
                    f"`{list_.name}` may have been appended to in this iteration, and this reads one of its last entries",
                    READ_BY_NAME,
                )
            if back == 1:
                return change.entry
            back -= 1
        written = list_.first.written if list_.first is not None else None
        if not 1 <= back <= len(written or ()):
            raise NoSuchEntry(
                f"`{list_.name}` has too few entries before the loop for this one to exist in its first iteration",
                f"begin with as many: `{list_.name} = [first, second]`",
                self.place,
            )
        assert written is not None
        for j in range(len(list_.lasts), back):
            state = self._make_state(list_.name, *self.pack(written[-1 - j]))
            list_.lasts.append(replace(state, name=f"{list_.name}[{-1 - j}]"))
        entry = self._value_in_iteration(list_.lasts[back - 1], None, Nature())
        numbers = nature_of(written or ()).numbers  # of what is an index, all are
        return entry.of_nature(Nature(numbers=numbers)) if numbers == "int" else entry

    def _happens(self, list_: Appended, change: Change) -> bool:
        """Whether one entry has been appended for certain, where the program is."""
        under, masks = conj(*self.conditions[list_.depth :]), self.masks[list_.masked :]
        here = change.under in (TRUE, under) and change.masks == tuple(masks[: len(change.masks)])
        return here and not change.axes

    def _last_entries(self, list_: Appended) -> Sequence[Any]:
        """Return the entries of a list that the next iteration reads as its last, the last one first."""
        if not list_.lasts and not list_.indexed:
            return ()
        one_each = not list_.chosen and not any(change.axes for change in list_.changes)
        if not one_each or (list_.indexed and len(list_.changes) > 1):
            raise self.error(
                f"iterations read last entries of `{list_.name}`, and append none or several",
                READ_BY_NAME,
            )
        newest = [change.entry for change in reversed(list_.changes)]
        older = [self._value_in_iteration(one, None, Nature()) for one in list_.lasts]
        return [*newest, *older][: len(list_.lasts)]

    def _changed_by_one_name(
        self,
        begun: Sequence[State | Appended | Any],
        left: Sequence[Any],
        changed: set[str],
        read: frozenset[str],
    ) -> None:
        """Raise TensorError if a loop changes an array in place that something else reads under another name."""
        lists = [x for x in left if isinstance(x, Appended) and x.value is not None]
        for one, value in zip(begun, left, strict=True):
            if not isinstance(one, State):
                continue
            own = frozenset[str]().union(
                *(arrays(self.memory.of_variable(x.name)) for x in one.parts)
            )
            if own.isdisjoint(changed):
                continue
            self.require_no_alias(one.name, own, read - {x.name for x in one.parts})
            mine = arrays(self.memory.of(value))
            others = [x for x in left if x is not value and not isinstance(x, UnreadableValue)]
            shared = sum(x is value for x in left) > 1
            if shared or any(not mine.isdisjoint(arrays(self.memory.of(x))) for x in others):
                raise self.error(
                    f"`{one.name}` is changed in place in each iteration and then assigned to "
                    "another name: from the second iteration on both are one array",
                    f"take a copy: `{one.name}.copy()`",
                )
            for list_ in lists:
                first = list_.first.written if list_.first is not None else None
                held = (self.memory.of(x) for x in (*(first or ()), list_.value))
                if not (mine | own).isdisjoint(arrays(frozenset[tuple[str, int]]().union(*held))):
                    raise self.error(
                        f"`{list_.name}` holds `{one.name}` itself, which each iteration changes in place, "
                        "so that all its entries are one array",
                        f"append a copy: `{list_.name}.append({one.name}.copy())`",
                    )

    def require_no_alias(self, name: str, entries: frozenset[str], read: frozenset[str]) -> None:
        """Raise TensorError if a name that a loop reads shares entries with an array that it changes in place.

        Args:
            entries: those of the changed array.
        """
        for other in read:
            if not entries.isdisjoint(arrays(self.memory.of_variable(other))):
                raise self.error(
                    f"this loop changes `{name}` in place, and reads its entries by another name",
                    "take a copy before the loop: `old = y.copy()`",
                )

    def _keep_carried(
        self, state: State, term: Term, read: frozenset[str]
    ) -> tuple[State, Term] | None:
        """Return a carried value and what an iteration leaves for it; None if the shape changes and the next iteration does not
        read it.
        """
        if self._fits(state, term):
            return state, term
        if not self._is_read(state, read):
            return None
        raise self.error(
            f"`{state.name}` begins as {describe(state.start.type, self.spelt)}, and an iteration makes it "
            f"{describe(term.type, self.spelt)}",
            "what a loop carries keeps its shape: begin with one, `h = np.zeros(n)`; to collect values, append them "
            "to a list, `y = []`, `y.append(e)`, and give what the next iteration reads a name of its own, `last = e`",
        )

    def _keep_beyond(self, within: Predicate, state: State, term: Term) -> Term:
        """Return what an iteration leaves in a loop whose length depends on an outer index: beyond the length, the value
        stays.
        """
        if state.list:
            raise self.error(
                "how often this loop appends depends on an outer index",
                "append in a loop that is as long for every index, and choose: `y.append(a if j < i else 0)`",
            )
        found = state.made_of(state.parts)
        return self._entrywise(term, found, within, self._negation(within))

    def _is_read(self, state: State, read: frozenset[str]) -> bool:
        """Whether a carried value is read."""
        return not read.isdisjoint(x.name for x in state.parts)

    def _read_as_growing(self, begun: Any, left: Any) -> str | None:
        """Return the name of a list that was read as growing but is not appended to; None if there is none."""
        if not isinstance(begun, State) or isinstance(left, Appended):
            return None
        list_ = self.lists.get(begun.parts[0].name)
        return begun.name if list_ is not None and list_.lasts else None

    def _make_initial(
        self, name: str, value: Any, index: str, filled: bool = False
    ) -> State | Appended | Any:
        """Return what a loop carries under a name, from its value before the loop."""
        depths = len(self.conditions) + 1, len(self.masks), index
        if isinstance(value, list) and not value:
            return Appended(name, None, *depths)
        if isinstance(value, Appended):
            raise self.error(
                f"`{name}` is appended to in a loop that carries values, in another that does",
                "make a list of its own in the inner loop, and append what you need of it",
            )
        if value is UNSET or (
            isinstance(value, UnreadableValue) and not isinstance(value, Carried)
        ):
            return value
        if isinstance(value, Value) and (array := self.memory.outdated(value)):
            return UnreadableValue(
                f"`{name}` shares its entries with `{array}`, changed since", "copy it"
            )
        term, layout = self.pack(value)
        if isinstance(term.type, Product):
            term = cast("Value", self._bind(name, Value(self, term, layout))).term
        state = self._make_state(name, term, layout, value)
        if isinstance(value, Value) and value.written is not None and not filled:
            self.lists[state.parts[0].name] = Appended(name, value, *depths)
        return state

    def _begun_within(self, name: str, initial: Any, value: Any) -> Any:
        """Return the initial value for a name that first gets a value inside a loop with at least one iteration."""
        if (
            initial is not UNSET
            or isinstance(value, Index | UnreadableValue)
            or self._changes_size(value)
        ):
            return initial
        if isinstance(value, Value) and value.defined is not None:
            return undefined(name)
        if not isinstance(value, Value) or value.type != array(dimensions(value.type)):
            raise self.error(f"`{name}` begins within the loop", "give it a value before")
        return self._make_state(name, zero_of(value.type), None)

    def _changes_size(self, value: Any) -> bool:
        """Whether a value's size depends on an index."""
        if not isinstance(value, Value):
            return False
        sizes = (n for part in parts_of(value.term) for n in dimensions(part.type))
        return any(n.names & self.every_index for n in sizes)

    def _make_state(self, name: str, start: Term, layout: Layout, value: Any = None) -> State:
        """Return a carried value with names for its parts."""
        each = parts_of(start)
        for part in each:
            if part.type != array(dimensions(part.type)):
                raise self.error(f"`{name}` is an array of tuples", "carry an array for each part")
        stems = [name] if len(each) == 1 else [f"{name}_{j}" for j in range(len(each))]
        names = [self.name(stem) for stem in stems]
        for x in names:
            self.memory.name(x, frozenset({(x, 0)}) | self.memory.now(value))
        if isinstance(start, Var) and start.name in self.reserved | self.borrowed:
            self.borrowed |= {*names}
        parts = tuple([Var(x, part.type) for x, part in zip(names, each, strict=True)])
        return State(name, start, parts, layout)

    def _value_in_iteration(
        self, carried: State | Appended | Any, within: Range | None, kind: Nature
    ) -> Any:
        """Return what a carried name means within an iteration."""
        if not isinstance(carried, State):
            return carried
        parts: Sequence[Term] = carried.parts
        if carried.lengths:
            each = zip(parts, carried.lengths, strict=True)
            parts = [self._truncate(part, own.now) for part, own in each]
        shares = _NOTHING_SHARED.union(*(self.memory.now(Value(self, x)) for x in carried.parts))
        nature = replace(kind, within=within if kind.numbers else None, shares=shares)
        made = Value(self, carried.made_of(parts), carried.layout).of_nature(nature)
        if carried.lengths:
            made = cast("Value", self._bind(carried.name, made))
            self.memory.name(made.variable, shares)
        return made

    def _nature_after(
        self, value: Any, within: Range | None, kind: Nature, index: str, size: Affine
    ) -> Nature:
        """Return what is known of a carried value after the loop, which may have no iteration; for a list, of its entries."""
        if isinstance(value, Appended):
            nature = nature_of([value.value])
            return replace(nature, within=beyond(nature.within, index, size))
        return replace(kind, within=within, shares=self.memory.now(value))

    def _next_value(self, carried: State | Appended | Any, value: Any) -> tuple[State, Term] | None:
        """Return a carried value and the term that an iteration leaves for it; None if it is not carried."""
        if isinstance(carried, State) and not isinstance(value, UnreadableValue):
            return carried, self.pack(_listed_like(carried.layout, value))[0]
        if isinstance(carried, Appended) and (value is not carried or carried.value is None):
            raise self.error(
                f"`{carried.name}` is not appended to in every iteration",
                "append once per iteration, to a list that begins empty: `y = []`",
            )
        if not isinstance(value, Appended) or value.value is None:
            return None
        term = value.value.term
        return replace(self._make_state(value.name, zero_of(term.type), None), list=value), term

    def _fits(self, state: State, term: Term) -> bool:
        """Whether a value has the type of a carried one; SizesMet if only sizes can tell."""
        befores, afters = state.begins, parts_of(term)
        if len(befores) != len(afters):
            return False
        for before, after in zip(befores, afters, strict=True):
            m, n = dimensions(before.type), dimensions(after.type)
            if len(m) != len(n) or after.type != array(n):
                return False
            for a, b in zip(m, n, strict=True):
                if a != b and (b - a).is_constant:
                    return False
                self.same(a, b)
        return True

    def _value_after(
        self,
        state: State,
        histories: Mapping[str, Term],
        size: Affine,
        nature: Nature,
        twins: Mapping[str, State],
    ) -> Any:
        """Return what a carried name means after the loop."""
        if state.list:
            history = histories[state.parts[0].name]
            twin = twins.get(state.parts[0].name)
            listed = (
                Value(self, history)
                if twin and self._begins_with(state.list, twin)
                else self._list_after(
                    None if state.list.axes or state.list.chosen else state.list.first,
                    history,
                    size,
                )
            )
            first = [state.list.first] if state.list.first is not None else []
            within = joined_ranges([nature.within, *map(range_of, first)])
            numbers = nature_of([*first, state.list.value]).numbers
            held = (*map(self.memory.of, first), self.memory.now(state.list.value))
            shares = frozenset[tuple[str, int]]().union(*held)
            listed.of_nature(
                replace(nature, lists=1, numbers=numbers, shares=shares, within=within)
            )
            made = cast("Value", self._bind(state.name, listed))
            if isinstance(made.unchecked, Var):  # what the loop carries, too
                self.memory.name(made.unchecked.name, shares)
            return made
        ends: list[Term] = [At(histories[x.name], size) for x in state.parts]
        if state.lengths:
            ends = [
                self._truncate(e, own.after) for e, own in zip(ends, state.lengths, strict=True)
            ]
        last = state.made_of(ends)
        return self._bind(state.name, Value(self, last, state.layout).of_nature(nature))

    def _begins_with(self, list_: Appended, twin: State) -> bool:
        """Whether a list begins as what is carried does, of which it has every value, and with nothing else."""
        written = list_.first.written if list_.first is not None else None
        return written is not None and [self.pack(x)[0] for x in written] == [twin.start]

    def _list_after(self, first: Value | None, history: Term, size: Affine) -> Value:
        """Return a list after a loop has appended to it: its entries before, and those of the iterations."""
        i = self.name("i")
        here = Affine.of(i)
        if first is None:
            return Value(self, Gen(i, size, At(history, here + 1))).of_nature(Nature(1))
        (before, *inner), (_, *dims) = dimensions(first.type), dimensions(history.type)
        if len(inner) != len(dims):
            raise self.error("a list's entries have one shape", "append what is like its first")
        for m, n in zip(inner, dims, strict=True):
            self.same(m, n)
        old, new = At(first.term, here), At(history, here - before + 1)
        p, q = compare("<", here, before), compare("≤", before, here)
        made = Value(self, Gen(i, before + size, self._entrywise(old, new, p, q)))
        return made.of_nature(Nature(1))


def _find_twins(carried: Sequence[tuple[State, Term]]) -> dict[str, State]:
    """Return the carried values that equal what each iteration appends to a list, by the name under which the list would be
    carried.
    """
    plain = {e: state for state, e in carried if not state.list and len(state.parts) == 1}
    return {state.parts[0].name: plain[e] for state, e in carried if state.list and e in plain}


def _listed_like(layout: Layout, value: Any) -> Any:
    """Return a literal list as several arrays, if the loop carries it so."""
    written = value.written if isinstance(value, Value) else None
    if written is None or not isinstance(layout, Laid) or layout.form.make is not list:
        return value
    return Laid(written, layout.form)


def kind_of(value: Any) -> Nature:
    """Return what is known of a value that a loop carries."""
    return Nature(lists_of(value) if isinstance(value, Value) else 0, numbers_of(value))


def kind_of_both(first: Nature, second: Nature) -> Nature:
    """Return what is known of a value that is one of two."""
    lists = first.lists if first.lists == second.lists else 0
    return Nature(lists, first.numbers if first.numbers == second.numbers else "")


def _is_unchanged(state: State, term: Term) -> bool:
    """Whether an iteration leaves a carried value as it is."""
    return not state.list and not state.lengths and term is state.made_of(state.parts)


def parts_of(e: Term) -> tuple[Term, ...]:
    """Return the parts of a term that are not pairs, in order."""
    if isinstance(e, Pair):
        return (*parts_of(e.first), *parts_of(e.second))
    if isinstance(e.type, Product):
        return (*parts_of(Proj(0, e)), *parts_of(Proj(1, e)))
    return (e,)


def steps_of(before: Sequence[Term], after: Sequence[Term]) -> Steps:
    """Return by how much each part's axes are longer; () if none is, or the difference is not constant."""
    if len(before) != len(after):
        return ()
    sizes = [(dimensions(a.type), dimensions(b.type)) for a, b in zip(before, after, strict=True)]
    steps = [steps_between(a, b) for a, b in sizes]
    known = tuple(step for step in steps if step is not None)
    return known if len(known) == len(steps) and any(map(any, known)) else ()


def _is_appended(value: Any) -> TypeGuard[Appended]:
    """Whether a value is a list that a loop appends to."""
    return isinstance(value, Appended)


def zero_of(type_: Type) -> Term:
    """Return zeros array a type."""
    if isinstance(type_, Product):
        return Pair(zero_of(type_.first), zero_of(type_.second))
    return gens(number_binders("z", dimensions(type_)), Const(0))


def undefined(name: str) -> UnreadableValue:
    """Return a stand-in for a name that has a value in one branch only."""
    return UnreadableValue(
        f"`{name}` has a value in one branch of an `if` only",
        "give it one in the other branch, too, or before the `if`",
    )


def gone(name: str) -> UnreadableValue:
    """Return a stand-in for a name whose value ends with a loop."""
    return UnreadableValue(
        f"`{name}` has only a value within the loop above", "compute it again after the loop"
    )
