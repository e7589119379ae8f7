"""Statements that change what a name means: `for`, `if`, `+=`, `append`, and assignments to entries.

A `for` over indices runs once, with a `Carried` in place of each name that it changes, which may be
added to, but not read: what is added in one turn becomes a sum, or an array, over all. Where a turn
reads what the one before has left, the loop runs once more, with a variable for each such value, and is
an `iterate` of the language.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ...language.affine import Affine
from ...language.errors import TensorError
from ...language.function import named
from ...language.pairs import to_pairs
from ...language.predicates import TRUE, Predicate, compare, conj, exists, negate
from ...language.terms import (
    At,
    Binder,
    Call,
    Const,
    Gen,
    Iterate,
    Pair,
    Proj,
    Sum,
    Term,
    Var,
    components,
    gens,
    guard,
    lets,
    numbered,
    substitute,
)
from ...language.types import REAL, Layout, Product, Type, array, dimensions
from ...polyhedral import sets
from ..tracers import Barred, Data, Value, describe, kind
from .entries import Entries
from .loops import Iteration, Pattern
from .packing import guarded

_NOTHING: frozenset[str] = frozenset()
UNSET = Barred(
    "this name has no value yet", "give it one before: `s = 0`, `y = []`, `y = np.zeros(n)`"
)


@dataclass
class Change:
    """What one turn of a loop does to a name: `op` is `+`, `*`, `append`, or `=` and `+=` at places
    `at` of an array, whose entries `places` are where `condition` holds.
    """

    op: str
    term: Term
    condition: Predicate = TRUE
    places: tuple[str, ...] = ()
    at: tuple[Affine, ...] = ()


class Carried(Barred):
    """A name that a loop changes, while it is traced; `plain` where it is assigned anew, not added
    to.
    """

    def __init__(self, name: str, start: Any, depth: int, masked: int, plain: bool) -> None:
        super().__init__(
            _left(name),
            "give it a value before the loop: `h = np.zeros(n)`",
        )
        self.name = name
        self.start = start
        self.depth = depth
        self.masked = masked
        self.plain = plain
        self.changes: list[Change] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise TensorError(self.message, self.help)


class Appended(Barred):
    """A list that a loop which carries values appends to, while it is traced: `first` is the array of
    its entries before, if any, and `value` what the turn appends.
    """

    def __init__(self, name: str, first: Value | None, depth: int, masked: int) -> None:
        super().__init__(
            f"`{name}` is a list that this loop appends to",
            "carry what a turn reads by a name of its own",
        )
        self.name = name
        self.first = first
        self.depth = depth
        self.masked = masked
        self.value: Value | None = None


@dataclass(frozen=True)
class State:
    """A value that a loop carries: its name in the source, how it begins, its parts as the body reads
    them, and how it is laid out.
    """

    name: str
    start: Term
    parts: tuple[Var, ...]
    layout: Layout

    @property
    def begins(self) -> tuple[Term, ...]:
        """How the parts begin."""
        return parts_of(self.start)

    def made_of(self, parts: Iterable[Term]) -> Term:
        """The value of such parts."""
        rest = iter(parts)

        def build(type_: Type) -> Term:
            if isinstance(type_, Product):
                first = build(type_.first)
                return Pair(first, build(type_.second))
            return next(rest)

        return build(self.start.type)


class Statements(Entries):
    """`for`, `if`, `+=`, `y.append(e)`, `y[i] = e`."""

    def __init__(self) -> None:
        super().__init__()
        self.masks: list[Value] = []
        self.open: list[Carried] = []
        self.borrowed: set[str] = set()  # what a loop carries that begins as the caller's

    def current(self, get: Callable[[], Any]) -> Any:
        """What a name means, or nothing yet."""
        try:
            return get()
        except NameError:
            return UNSET

    # if

    def branch(
        self,
        k: int,
        test: Any,
        names: tuple[str, ...],
        values: tuple[Any, ...],
        then: Callable[..., Any],
        other: Callable[..., Any],
    ) -> tuple[Any, ...]:
        """What names mean after an `if` statement."""
        self.at(k)
        if isinstance(test, bool):
            return tuple((then if test else other)(*values))
        if self._on_data(test):
            return self._masked(k, test, names, values, then, other)
        p = self.condition(test)
        found = []
        for condition, run in ((p, then), (self._negation(p), other)):
            before = [len(c.changes) for c in self.open]
            with self.scope(condition=condition) as scope:
                results = run(*values)
                for carried, old in zip(self.open, before, strict=True):
                    for change in carried.changes[old:]:
                        change.term = lets(scope.bindings, change.term)
            found.append((condition, scope.bindings, results))
        self.at(k)
        (_, first, a), (q, second, b) = found
        return tuple(
            self._joined(name, (p, first, x), (q, second, y))
            for name, x, y in zip(names, a, b, strict=True)
        )

    def _joined(self, name: str, one: tuple[Any, ...], two: tuple[Any, ...]) -> Any:
        (p, first, x), (q, second, y) = one, two
        if x is y:
            return x
        for value in (x, y):
            if value is UNSET:
                return UNSET
            if isinstance(value, Carried | list):
                raise self.error(f"`{name}` is a list or a sum in one branch only")
        branches = []
        for condition, bindings, value in ((p, first, x), (q, second, y)):
            term, layout = self.pack(value)
            branches.append((condition, lets(bindings, term), layout))
        return self._bind(name, self._either(branches))

    def _masked(
        self,
        k: int,
        test: Value,
        names: tuple[str, ...],
        values: tuple[Any, ...],
        then: Callable[..., Any],
        other: Callable[..., Any],
    ) -> tuple[Any, ...]:
        not_test = self.once(self._negated(test), "not_test")
        test = self.once(test, "test")
        found = []
        for mask, run in ((test, then), (not_test, other)):
            self.masks.append(mask)
            found.append(run(*values))
            self.masks.pop()
        self.at(k)
        joined = []
        for name, x, y in zip(names, *found, strict=True):
            if x is y or UNSET in (x, y):
                joined.append(x if x is y else UNSET)
            elif isinstance(x, Carried | list) or isinstance(y, Carried | list):
                raise self.error(f"`{name}` is a list or a sum in one branch only")
            else:
                joined.append(self._bind(name, self.chosen(test, x, y)))
        return tuple(joined)

    def returned(self, k: int, test: Any, then: Callable[[], Any], other: Callable[[], Any]) -> Any:
        """`if p: return a`, and what comes after it."""
        return self.choose(k, test, then, other)

    # for

    def repeat(
        self,
        k: int,
        pattern: Pattern,
        bounds: Any,
        names: tuple[str, ...],
        plain: tuple[bool, ...],
        values: tuple[Any, ...],
        body: Callable[..., Any],
    ) -> tuple[Any, ...]:
        """What names mean after a `for` statement. `plain` are those that it assigns anew."""
        self.at(k)
        turns = self._written_out(pattern, bounds, any(plain))
        if turns is not None:
            for item in turns:
                values = tuple(body(*item, *values))
            return values
        before = len(self.lookups), len(self.accesses), len(self.masks)
        used = set(self.used)
        try:
            return self._added_up(k, pattern, bounds, names, plain, values, body)
        except TensorError as error:
            if all(isinstance(v, Barred) and not isinstance(v, Carried) for v in values):
                raise
            if not any(_left(name) in error.message for name in names):
                raise
        looked, read, masked = before
        self.used = used
        del self.lookups[looked:], self.accesses[read:], self.masks[masked:]
        return self._one_by_one(k, pattern, bounds, names, values, body)

    def _added_up(
        self,
        k: int,
        pattern: Pattern,
        bounds: Any,
        names: tuple[str, ...],
        plain: tuple[bool, ...],
        values: tuple[Any, ...],
        body: Callable[..., Any],
    ) -> tuple[Any, ...]:
        """A loop whose turns do not read what those before have left."""
        index, size, item, within = self.turn(pattern, bounds, ragged=True)
        with self.scope(Binder(index, size), within) as scope:
            carried = [
                Carried(name, value, len(self.conditions), len(self.masks), again)
                for name, value, again in zip(names, values, plain, strict=True)
            ]
            around, self.open = self.open, [c for c in carried if not c.plain]
            try:
                body(*item(), *carried)
            finally:
                self.open = around
        self.at(k)
        changed = sum(len(c.changes) for c in carried)
        bindings = self._shared(index, size, within, scope.bindings) if changed > 1 else None
        results: list[Any] = []
        for c in carried:
            if c.plain:
                if c.changes:
                    raise self.error(
                        f"this loop assigns to `{c.name}` anew and adds to it", "use two names"
                    )
                results.append(_gone(c.name))
                continue
            result = c.start
            for change in c.changes:
                if bindings is None:
                    change.term = lets(scope.bindings, change.term)
                else:
                    change.term = substitute(change.term, bindings)
                result = self._applied(c, result, change, index, size, within)
            results.append(result)
        return tuple(results)

    def _one_by_one(
        self,
        k: int,
        pattern: Pattern,
        bounds: Any,
        names: tuple[str, ...],
        values: tuple[Any, ...],
        body: Callable[..., Any],
    ) -> tuple[Any, ...]:
        """A loop whose turns read what those before have left: `iterate`."""
        self.at(k)
        index, size, item, within = self.turn(pattern, bounds, ragged=True)
        if within != TRUE:
            raise self.error(
                "how often this loop runs depends on an outer index",
                "let it run as often as the longest, and carry on: `h = f(h) if j < i else h`",
            )
        begun = tuple(map(self._begun, names, values))
        with self.scope(Binder(index, size)) as scope:
            left = body(*item(), *(self._during(one) for one in begun))
        self.at(k)
        made = [self._carried_on(one, value) for one, value in zip(begun, left, strict=True)]
        read = _NOTHING.union(*(e.variables for _, e in scope.bindings))
        read = read.union(*(e.variables for _, e in filter(None, made)))
        carried = [self._kept(*found, read) if found else None for found in made]
        kept = [found for found in carried if found]
        if not kept:
            raise self.error("nothing that this loop leaves can be carried on")
        turn = lets(scope.bindings, to_pairs([x for _, e in kept for x in parts_of(e)], Pair))
        parts = [x.name for state, _ in kept for x in state.parts]
        starts = [e for state, _ in kept for e in state.begins]
        loop = Value(self, Iterate(index, size, tuple(parts), tuple(starts), turn))
        history = cast("Value", self._bind("history", loop)).term
        each = dict(zip(parts, components(history, len(parts)), strict=True))
        return tuple(
            self._after(one, found[0], each, size) if found else _gone(name)
            for name, one, found in zip(names, begun, carried, strict=True)
        )

    def _kept(self, state: State, term: Term, read: frozenset[str]) -> tuple[State, Term] | None:
        """What is carried and what a turn leaves; None where that has another shape and is not read by
        the turn after.
        """
        if self._fits(state, term):
            return state, term
        if read.isdisjoint(x.name for x in state.parts):
            return None
        raise self.error(
            f"`{state.name}` begins as {describe(state.start.type)}, and a turn makes it "
            f"{describe(term.type)}",
            "what a loop carries keeps its shape: begin with one, `h = np.zeros(n)`",
        )

    def _begun(self, name: str, value: Any) -> State | Appended | Any:
        """What a loop carries by a name, from how it begins."""
        if value == []:
            return Appended(name, None, len(self.conditions) + 1, len(self.masks))
        if isinstance(value, Value) and value.written is not None:
            return Appended(name, value, len(self.conditions) + 1, len(self.masks))
        if value is UNSET or (isinstance(value, Barred) and not isinstance(value, Carried)):
            return value
        term, layout = self.pack(value)
        if isinstance(term.type, Product):
            term = cast("Value", self._bind(name, Value(self, term, layout))).term
        return self._state(name, term, layout)

    def _state(self, name: str, start: Term, layout: Layout) -> State:
        each = parts_of(start)
        for part in each:
            if part.type != array(dimensions(part.type)):
                raise self.error(f"`{name}` is an array of tuples", "carry an array for each part")
        stems = [name] if len(each) == 1 else [f"{name}_{j}" for j in range(len(each))]
        names = [self.name(stem) for stem in stems]
        if isinstance(start, Var) and start.name in self.reserved | self.borrowed:
            self.borrowed |= {*names}
        parts = tuple([Var(x, part.type) for x, part in zip(names, each, strict=True)])
        return State(name, start, parts, layout)

    def _during(self, one: State | Appended | Any) -> Any:
        """What the name means in a turn."""
        return Value(self, one.made_of(one.parts), one.layout) if isinstance(one, State) else one

    def _carried_on(self, one: State | Appended | Any, value: Any) -> tuple[State, Term] | None:
        """What is carried, and what a turn leaves there."""
        if isinstance(one, State) and not isinstance(value, Barred):
            return one, self.pack(value)[0]
        if not isinstance(one, Appended):
            return None
        if value is not one or one.value is None:
            raise self.error(
                f"`{one.name}` is not appended to in every turn",
                "append once a turn, to a list that begins empty: `y = []`",
            )
        term = one.value.term
        return self._state(one.name, zero_of(term), None), term

    def _fits(self, state: State, term: Term) -> bool:
        """Whether a value may be carried on by this name; SizesMet where only sizes can tell."""
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

    def _after(
        self, one: State | Appended | Any, state: State, each: dict[str, Term], size: Affine
    ) -> Any:
        """What a name means after the loop."""
        if isinstance(one, Appended):
            return self._bind(one.name, self._listed(one.first, each[state.parts[0].name], size))
        last = state.made_of(At(each[x.name], size) for x in state.parts)
        return self._bind(state.name, Value(self, last, state.layout))

    def _listed(self, first: Value | None, history: Term, size: Affine) -> Value:
        """What a list has after a loop has appended to it: what it had, and the values of the turns."""
        i = self.name("i")
        here = Affine.of(i)
        if first is None:
            return Value(self, Gen(i, size, At(history, here + 1)))
        (before, *inner), (_, *dims) = dimensions(first.type), dimensions(history.type)
        if len(inner) != len(dims):
            raise self.error("a list's entries have one shape", "append what is like its first")
        for m, n in zip(inner, dims, strict=True):
            self.same(m, n)
        old, new = At(first.term, here), At(history, here - before + 1)
        p, q = compare("<", here, before), compare("≤", before, here)
        return Value(self, Gen(i, before + size, self._entrywise(old, new, p, q)))

    def _written_out(self, pattern: Pattern, bounds: Any, again: bool) -> list[Any] | None:
        """The turns of a loop that is written out: over a tuple, or one of constant count in which a
        turn may take what the one before has left.
        """
        if isinstance(bounds, Iteration):
            if bounds.fixed is not None:
                return [self.fitted(pattern, item) for item in bounds.fixed]
            return None
        start, length, step = self._range(bounds)
        if again and start.is_constant and length.is_constant:
            return [(start.constant + step * j,) for j in range(length.constant)]
        return None

    def _shared(
        self, index: str, size: Affine, within: Predicate, bindings: Sequence[tuple[str, Term]]
    ) -> dict[str, Term]:
        """A turn's lets as arrays over all turns, for several changes to read."""
        at, found = Affine.of(index), dict[str, Term]()
        for name, term in bindings:
            array = Value(self, Gen(index, size, guard(within, substitute(term, found))))
            whole = cast("Value", self._bind(name, array))
            found[name] = At(whole.term, at)
        return found

    def _applied(
        self, c: Carried, start: Any, change: Change, index: str, size: Affine, within: Predicate
    ) -> Any:
        """A name's value after all turns of one change."""
        p = conj(within, change.condition)
        match change.op:
            case "append":
                if isinstance(start, Carried):
                    message = "`append` in two loops makes a flat list, whose index is not affine"
                    raise self.error(
                        message, "nest the lists: `[[… for j in range(m)] for i in range(n)]`"
                    )
                if start != [] or len(c.changes) > 1 or change.condition != TRUE or within != TRUE:
                    raise self.error(
                        f"the size of `{c.name}` depends on more than the loop",
                        "append once a turn, to a list that begins empty: `y = []`",
                    )
                return self._bind(c.name, Value(self, Gen(index, size, change.term)))
            case "+":
                total = self.summed(index, size, guarded(p, change.term))
                return self.augment_with("+", start, total, c.name)
            case "*":
                factor = Value(self, change.term)
                if p != TRUE:
                    factor = self.chosen(self.truth_of(p), factor, 1)
                array = Value(self, Gen(index, size, factor.term))
                return self.augment_with("*", start, self.folded("prod", array), c.name)
        return self._filled(c, start, change, index, size, p)

    def folded(self, name: str, array: Value) -> Value:
        """A form that reduces an array, by name: `prod`."""
        raise NotImplementedError

    def _filled(
        self, c: Carried, start: Any, change: Change, index: str, size: Affine, p: Predicate
    ) -> Any:
        at = change.at
        if change.op == "=":
            if len(c.changes) > 1 and not self._apart(c.changes, index, size):
                raise self.error(
                    f"`{c.name}` is assigned to at several places in one turn",
                    "write one assignment",
                )
            alone = [a for a in at if a.coefficient(index)]
            if not alone:
                raise self.error(
                    f"more than one turn may assign to one entry of `{c.name}`",
                    "index it by the loop's index: `y[i] = …`",
                )
            at = tuple(a for a in at if a is not alone[0])
        made = Change(
            change.op,
            Sum(index, size, guarded(p, change.term)),
            exists(index, size, p),
            change.places,
            at,
        )
        if isinstance(start, Carried):
            self._record(start, made)
            return start
        array = self.once(self.whole(start), "old")
        binders = list(map(Binder, made.places, self.dims(array)))
        here = [Affine.of(i) for i in made.places]
        with self._inside(binders):
            new, old = Value(self, made.term), self.read(array, *here)
            if change.op == "=":
                q = sets.simplify(made.condition, tuple(binders))
                left = negate(q)
                if left is None:
                    left = self._negation(q)
                keep = old if old.term is Const(0) else self.conditioned(left, old)
                entry = self.plus_of(new, keep)
            else:
                entry = self.plus_of(old, new)
        term = entry.term
        for place, n in reversed(binders):
            term = Gen(place, n, term)
        return self._bind(c.name, Value(self, term))

    def _apart(self, changes: list[Change], index: str, size: Affine) -> bool:
        binders = (*self.binders, Binder(index, size))
        return (
            all(
                sets.impossible(binders, conj(a.condition, b.condition))
                for j, a in enumerate(changes)
                for b in changes[:j]
                if a.at == b.at
            )
            and len({change.at for change in changes}) == 1
        )

    # Changes

    def augment(self, k: int, op: str, name: str, target: Any, value: Any) -> Any:
        """`s += e` and the like."""
        self.at(k)
        return self._bind(name, self.augment_with(op, target, value, name))

    def augment_with(self, op: str, target: Any, value: Any, name: str) -> Any:
        """`target op= value`; in a loop it is recorded, and worked out at the loop's end."""
        if not isinstance(target, Carried):
            if target is UNSET:
                raise self.error(f"`{name}` has no value yet", f"begin with `{name} = 0`")
            return self.computed(op, target, value)
        if op == "-":
            op, value = "+", self.negative(value)
        if op == "/":
            op, value = "*", self.computed("/", 1, value)
        if op not in "+*":
            raise self.error(f"`{op}=` in a loop", "use `+=`, or write a comprehension")
        self._record(target, Change(op, self.whole(value).term))
        return target

    def _record(self, c: Carried, change: Change) -> None:
        conditions = conj(*self.conditions[c.depth :])
        change.condition = conj(conditions, change.condition)
        for mask in self.masks[c.masked :]:
            change.term = self._under(mask, change)
        c.changes.append(change)

    def _under(self, mask: Value, change: Change) -> Term:
        if change.op in ("append", "="):
            raise self.error(
                "data decide whether this happens", "write `np.where(p, new, old)` as the value"
            )
        value = Value(self, change.term)
        if change.op == "*":
            return self.chosen(mask, value, 1).term
        if value.type == REAL:
            return Call(named("kept"), (mask.term, change.term))
        return self.chosen(mask, value, 0).term

    def append(self, k: int, target: Any, value: Any) -> Any:
        """`y.append(e)`."""
        self.at(k)
        if isinstance(target, Carried):
            term, layout = self.pack(value)
            if layout is not None:
                raise self.error("a list of tuples", "append to a list for each part")
            self._record(target, Change("append", term))
            return target
        if isinstance(target, Appended):
            always = conj(*self.conditions[target.depth :]) == TRUE
            if target.value is not None or not always or len(self.masks) > target.masked:
                raise self.error(
                    f"`{target.name}` is appended to more or less than once a turn",
                    "append once a turn, `y.append(a if p else b)`",
                )
            target.value = self.whole(value)
            if isinstance(target.value.type, Product):
                raise self.error("a list of tuples", "append to a list for each part")
            return target
        if isinstance(target, list):
            return [*target, self._bind("entry", value)]
        raise self.error(f"`append` to {kind(target)}", "begin with an empty list: `y = []`")

    def store(
        self, k: int, op: str, name: str, target: Any, places: tuple[Any, ...], value: Any
    ) -> Any:
        """`y[i] = e`, `y[i] += e`."""
        self.at(k)
        places = places[0] if len(places) == 1 and isinstance(places[0], tuple) else places
        root = target.start if isinstance(target, Carried) else target
        while isinstance(root, Carried):
            root = root.start
        if isinstance(root, dict | list) and not isinstance(target, Carried):
            return self._part_replaced(op, root, places, value)
        if root is UNSET:
            raise self.error(f"`{name}` has no value yet", f"begin with `{name} = np.zeros(n)`")
        if isinstance(root, Data) or (
            isinstance(root, Value)
            and isinstance(root.term, Var)
            and root.term.name in self.reserved | self.borrowed
        ):
            raise self.error(
                f"`{name}` is the caller's, and this changes it",
                f"begin with a copy: `y = {name}.copy()`",
            )
        if not isinstance(target, Carried):
            return self._bind(name, self.stored(self.whole(root), places, value, op))
        return self._stored_in_loop(target, self.whole(root), places, value, op)

    def _part_replaced(self, op: str, root: Any, places: tuple[Any, ...], value: Any) -> Any:
        (key,) = places
        made = root.copy()
        made[key] = self.computed(op, root[key], value) if op else value
        return made

    def _stored_in_loop(
        self, target: Carried, root: Value, places: tuple[Any, ...], value: Any, op: str
    ) -> Carried:
        own = self.dims(root)
        if op not in ("", "+", "-"):
            raise self.error(f"`{op}=` to an entry in a loop", "write a comprehension")
        value = self.negative(value) if op == "-" else self.whole(value)
        value = self.once(value, "new")
        names = tuple(self.name(letter) for letter, _ in zip("abcdefgh", own, strict=False))
        spelt = self._spelt_out(places, len(own))
        taken: list[Predicate] = []
        inner: list[Affine] = []
        at: list[Affine] = []
        for j, (place, n, name) in enumerate(zip(spelt, own, names, strict=True)):
            k = Affine.of(name)
            if isinstance(place, slice):
                axis = self._axis(place, n, root, j)
                holds, i = axis.holds(k)
                taken.append(holds)
                inner.append(i)
                continue
            a = self._axis(place, n, root, j).start
            taken.append(compare("=", k, a))
            at.append(a)
        with self._inside(list(map(Binder, names, own))):
            term = self._aligned(value, inner).term
        change = Change("=" if not op else "+=", term, conj(*taken), names, tuple(at))
        self._record(target, change)
        return target


def _left(name: str) -> str:
    return f"`{name}` has what the turn before has left there"


def parts_of(e: Term) -> tuple[Term, ...]:
    """The parts of a term that are no pairs, in order."""
    if isinstance(e, Pair):
        return (*parts_of(e.first), *parts_of(e.second))
    if isinstance(e.type, Product):
        return (*parts_of(Proj(0, e)), *parts_of(Proj(1, e)))
    return (e,)


def zero_of(e: Term) -> Term:
    """The zero of the type of an array."""
    return gens(numbered("z", dimensions(e.type)), Const(0))


def _gone(name: str) -> Barred:
    return Barred(
        f"`{name}` has only a value within the loop above", "compute it again after the loop"
    )
