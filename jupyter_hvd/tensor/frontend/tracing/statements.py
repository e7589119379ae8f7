"""Statements that change what a name means: `for`, `if`, `+=`, `append`, and assignments to entries.

A `for` over indices runs once, with a `Carried` in place of each name that it changes, which may be
added to, but not read: what is added in one turn becomes a sum, or an array, over all. Where a turn
reads what the one before has left, the loop runs once more, with a variable for each such value, and is
an `iterate` of the language.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import reduce
from typing import Any, Never, cast

from ...language.affine import Affine
from ...language.errors import TensorError
from ...language.function import find_function
from ...language.predicates import (
    FALSE,
    TRUE,
    Compare,
    Or,
    Predicate,
    compare,
    conj,
    conjuncts,
    disj,
    exists,
    negate,
)
from ...language.predicates import substitute as renamed
from ...language.terms import (
    At,
    Binder,
    Call,
    Const,
    Gen,
    Guard,
    Let,
    Sum,
    Term,
    Var,
    guard,
    lets,
    substitute,
)
from ...language.types import REAL
from ...polyhedral import sets
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
    sought_of,
)
from .aliasing import arrays
from .arrays import nature_of, range_of
from .conditions import known_truth
from .loops import Iteration, Loop, Pattern, flat
from .packing import Scope, guarded
from .recurrences import (
    ANYTHING,
    LOCAL,
    LONG,
    UNSET,
    WRITTEN_OUT,
    Appended,
    Carried,
    Change,
    InOrder,
    Recurrences,
    gone,
    kind_of,
    undefined,
)
from .subscripts import STORED_IN_SLICE, Axis, is_written

AT_MOST = (
    "say how often it runs at most: `while p and k < 100:` with `k += 1`, or `while p:  # at most 100`; "
    "instead of a binary search write `np.searchsorted(x, v)`"
)
LIST_IN_BOTH = (
    "append to it in both branches, `y.append(a)` and `y.append(b)`, or make it an array in both, "
    "`y = np.array([a, b])`"
)
ITERATIONS = 1000  # of a `while` loop, which are written out


class Raised(TensorError):  # noqa: N818 - it says what the program raises
    """The error for a `raise` that the traced program reaches."""


class Statements(Recurrences):
    """`for`, `if`, `+=`, `y.append(e)`, `y[i] = e`."""

    anything = ANYTHING  # a name's value until a `return` in a loop gives it one

    # What classes that extend this one define
    flattened: Callable[[Any, list[Any]], Callable[[Iterator[Any]], Any]]
    in_order_of_size: Callable[..., Any]
    in_slice: Callable[[slice, Affine], Value]

    def __init__(self) -> None:
        super().__init__()
        self.branches: list[Predicate] = []  # conditions on indices of the `if`s around

    def so_far(self) -> tuple[Any, ...]:
        """Return the present state of tracing, for `back_to`."""
        changes = [(c, len(c.changes), dict(vars(c))) for c in self.open]
        within = len(self.masks), len(self.branches)
        return super().so_far(), within, changes, set(self.borrowed), dict(self.lists)

    def back_to(self, before: tuple[Any, ...]) -> None:
        """Restore a state that `so_far` returned."""
        traced, (masks, branches), changes, self.borrowed, self.lists = before
        super().back_to(traced)
        del self.masks[masks:]
        del self.branches[branches:]
        for carried, end, fields in changes:
            vars(carried).update(fields)
            del carried.changes[end:]

    def current(self, get: Callable[[], Any], local: bool = False) -> Any:
        """Return a name's value, or that it has none yet; `local` if it occurs in one loop only."""
        try:
            return get()
        except NameError:
            return LOCAL if local else UNSET

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
        """Return the values of names after an `if` statement; called by rewritten code."""
        self.at(k)
        test = self.as_condition(test)
        if (known := known_truth(test)) is not None:
            return tuple((then if known else other)(*values))
        if self._on_data(test):
            p, data = self.parts_of_truth(test)
            if p != TRUE:

                def inner(*values: Any) -> tuple[Any, ...]:
                    return self.branch(k, data, names, values, then, other)

                return self.branch(k, Condition(self, p), names, values, inner, other)
            return self._branch_on_data(k, test, names, values, then, other)
        p = self.condition(test)
        found, ends = [], list[list[int]]()
        with self.memory.list_branches() as ways:
            for condition, run in ((p, then), (self._negation(p), other)):
                before = [len(c.changes) for c in self.open]
                ends.append(before)
                self.branches.append(condition)
                with ways.one(), self.scope(condition=condition) as scope:
                    results = run(*values)
                    for carried, old in zip(self.open, before, strict=True):
                        for change in carried.changes[old:]:
                            self._leave_scope(change, len(self.masks) - carried.masked, scope)
                self.branches.pop()
                found.append((condition, scope.bindings, results))
        self.at(k)
        (_, first, a), (q, second, b) = found
        self._append_either_way(
            ends, p, lambda x, y: self._choose_by_predicate([(p, x.term, None), (q, y.term, None)])
        )
        with self.memory.as_it_was():
            return tuple(
                self._join_branches(name, (p, first, x), (q, second, y))
                for name, x, y in zip(names, a, b, strict=True)
            )

    def _join_branches(
        self, name: str, then_branch: tuple[Any, ...], else_branch: tuple[Any, ...]
    ) -> Any:
        """Return a name's value after two branches that indices decide between."""
        (p, first, x), (q, second, y) = then_branch, else_branch
        if x is y:
            return x
        for here, bindings, value, other in ((p, first, x, y), (q, second, y, x)):
            if other is ANYTHING:
                term, layout = self.pack(value)
                made = Value(self, guarded(here, lets(bindings, term)), layout)
                return self._bind(name, made.of_nature(kind_of(value)))
        if (list_ := self._shared_list(x, y)) is not None:
            return list_
        for here, bindings, value, other in ((p, first, x, y), (q, second, y, x)):
            if isinstance(other, UnreadableValue) and not isinstance(other, Appended):
                return self._defined_where(name, here, bindings, value)
            if isinstance(value, Appended | list):
                raise self.error(f"`{name}` is a list in one branch only", LIST_IN_BOTH)
        integer = self.one_integer(p, x, q, y)
        if integer is not None:
            return integer
        branches, defined = [], list[Predicate]()
        for condition, bindings, value in ((p, first, x), (q, second, y)):
            value, where = _where_defined(value)
            term, layout = self.pack(value)
            branches.append((condition, lets(bindings, term), layout))
            defined.append(conj(condition, where))
        made = self._bind(name, self._one_of(self._choose_by_predicate(branches), x, y))
        return made if defined == [p, q] else self._only_where(name, disj(*defined), made)

    def _shared_list(self, x: Any, y: Any) -> Appended | None:
        """Return the list that a loop appends to, if both branches leave it; else None."""
        list_ = self._growing(x)
        return list_ if list_ is not None and list_ is self._growing(y) else None

    def _defined_where(
        self, name: str, p: Predicate, bindings: Sequence[tuple[str, Term]], value: Any
    ) -> Any:
        """Return the value of a name that only one branch defines; it can be read only where that branch is taken."""
        if isinstance(value, UnreadableValue | list) or not isinstance(value, Value):
            return undefined(name)
        made = self._bind(name, Value(self, guarded(p, lets(bindings, value.term)), value.layout))
        return self._only_where(name, p, made)

    def _only_where(self, name: str, p: Predicate, value: Any) -> Any:
        """Mark a value as defined only where a condition holds."""
        if not isinstance(value, Value):
            return undefined(name)
        value.defined = p
        return value

    def _one_of(self, value: Value, then: Any, otherwise: Any) -> Value:
        """Mark a value that is one of two as sharing what either shares."""
        return value.of_nature(self.nature_of_one(then, otherwise))

    def _branch_on_data(
        self,
        k: int,
        test: Value,
        names: tuple[str, ...],
        values: tuple[Any, ...],
        then: Callable[..., Any],
        other: Callable[..., Any],
    ) -> tuple[Any, ...]:
        """Return the values of names after an `if` that data decide: both branches are traced."""
        not_test = self.once(self._negated(test), "not_test")
        test = self.once(test, "test")
        found, ends = [], list[list[int]]()
        with self.memory.list_branches() as ways:
            for mask, run in ((test, then), (not_test, other)):
                ends.append([len(c.changes) for c in self.open])
                self.masks.append(mask)
                with ways.one(), self.where(lambda mask=mask: mask):  # type: ignore[misc]
                    found.append(run(*values))
                self.masks.pop()
        self.at(k)
        self._append_either_way(ends, test, lambda x, y: self.chosen(test, x, y))
        with self.memory.as_it_was():
            return self._join_by_data(test, names, found)

    def _leave_scope(self, change: Change, masks: int, scope: Scope) -> None:
        """Close a change that a branch made; masks beyond the first `masks` are conditions within the branch."""
        change.term = lets(scope.bindings, change.term)
        inner = (Value(self, lets(scope.bindings, m.unchecked)) for m in change.masks[masks:])
        change.masks = (*change.masks[:masks], *inner)
        if change.chosen is not None:
            change.chosen = lets(scope.bindings, change.chosen)

    def _append_either_way(
        self,
        ends: Sequence[Sequence[int]],
        test: Predicate | Value,
        join: Callable[[Value, Value], Value],
    ) -> None:
        """Join appends of both branches into one append of either value, if nothing else decides whether they happen."""
        for c, begin, middle in zip(self.open, *ends, strict=True):
            one, two = c.changes[begin:middle], c.changes[middle:]
            under = conj(*self.conditions[c.depth :])
            masks = tuple(self.masks[c.masked :])
            p = conj(under, test) if not isinstance(test, Value) else under
            own = (*masks, test) if isinstance(test, Value) else masks
            alike = len(one) == len(two) == 1 and one[0].op == two[0].op == "append"
            if not alike or one[0].axes or two[0].axes or one[0].under != p or one[0].masks != own:
                continue
            if len(two[0].masks) != len(own) or (isinstance(test, Value) and two[0].under != under):
                continue
            entries = [Value(self, x.term) if x.entry is None else x.entry for x in (*one, *two)]
            made = join(*(Value(self, x.term) for x in (*one, *two)))
            made.of_nature(self.nature_of_one(*entries))
            merged = Change("append", made.term, under, under=under, masks=masks, entry=made)
            c.changes[begin:] = [merged]

    def _join_by_data(
        self, test: Value, names: tuple[str, ...], branches: list[Any]
    ) -> tuple[Any, ...]:
        """Return the values of names after two branches that data decide between."""
        joined = []
        for name, x, y in zip(names, *branches, strict=True):
            if x is y or y is ANYTHING:
                joined.append(x)
            elif x is ANYTHING:
                joined.append(y)
            elif (list_ := self._shared_list(x, y) or self._one_list(test, x, y)) is not None:
                joined.append(list_)
            elif isinstance(x, Appended | list) or isinstance(y, Appended | list):
                raise self.error(f"`{name}` is a list in one branch only", LIST_IN_BOTH)
            elif isinstance(x, UnreadableValue) or isinstance(y, UnreadableValue):
                joined.append(undefined(name))
            else:
                (x, p), (y, q) = map(_where_defined, (x, y))
                made = self._bind(name, self.one_of_two(test, x, y))
                if (where := conj(p, q)) != TRUE:
                    made = self._only_where(name, where, made)
                joined.append(made)
        return tuple(joined)

    def _one_list(self, test: Value, then: Any, otherwise: Any) -> Any:
        """Return a list that is one of two by data, of which one is the other with more entries; None if neither is."""
        for before, after in ((then, otherwise), (otherwise, then)):
            grown = after.grown if isinstance(after, Selected) else None
            if grown is not None and grown[0] is before:
                test = test if after is then else self._negated(test)
                return self._more_chosen(*grown[:2], self.spread((grown[2], test), self.product))
        if not isinstance(then, list) or not isinstance(otherwise, list):
            return None
        if len(then) == len(otherwise):
            return [
                a if a is b else self.one_of_two(test, a, b)
                for a, b in zip(then, otherwise, strict=True)
            ]
        before, after = sorted((then, otherwise), key=len)
        if any(a is not b for a, b in zip(before, after, strict=False)):
            return None
        more = self.whole(self.written_out(after[len(before) :]))
        test = test if after is then else self._negated(test)
        flags = self.build(self.dims(more)[:1], lambda *_: test, test)
        if not before:
            return self._appended_to("listed", [], more, flags, 0)
        first = self.written_out(before)
        return self._appended_to("listed", first, more, flags, 0)

    def _more_chosen(self, value: Selected, more: Value, flags: Value) -> Selected:
        """Return a selection with more entries, of which others are chosen."""
        nature = replace(value.array.nature, lists=1)
        array = self.joined_lists(value.array.of_nature(nature), more.of_nature(nature))
        mask = self.joined_lists(
            Value(self, value.mask.term).of_nature(Nature(1)), flags.of_nature(Nature(1))
        )
        mask = as_truth(self.once(mask, "chosen"))
        made = Selected(self, self.once(array, "listed").of_nature(nature), mask, mask.term)
        made.grown = value, more, flags
        return made

    def returned(self, k: int, test: Any, then: Callable[[], Any], other: Callable[[], Any]) -> Any:
        """Return the result of `if p: return a` and what follows.

        If one branch raises, sizes that decide become numbers; where data decide that it is taken, the result is NaN.
        """
        before = self.so_far()
        try:
            return self.choose(k, test, then, other)
        except Raised:
            if self._on_data(test):
                self.back_to(before)
                return self._not_raised(test, then, other)
            if isinstance(test, Condition) and not test.predicate.relations:
                for size in sorted(test.predicate.names - {i for i, _ in self.binders}):
                    self.number(Affine.of(size))
            raise

    def _not_raised(self, test: Value, then: Callable[[], Any], other: Callable[[], Any]) -> Any:
        """Return the result of two branches of which one raises: NaN where that one is taken."""
        before = self.so_far()
        try:
            value, raises = other(), test
        except Raised:
            self.back_to(before)
            value, raises = then(), self._negated(test)
        finished = self.once(self.chosen(raises, 0, 1), "finished")
        return self._nan_unless(finished, value)

    def raised(self, k: int, error: str) -> Never:
        """Raise the error for a `raise` statement that the program reaches."""
        self.at(k)
        raise Raised(
            f"this raises {error}",
            "where data decide whether it does, check them in the caller",
            self.place,
        )

    def is_unset(self, flag: Any) -> Any:
        """Whether no `break` or `return` has set a flag, which is a number of Python's where none may have."""
        return not flag if isinstance(flag, float) else self._compare("==", flag, 0)

    def raised_in_loop(self, error: str) -> int:
        """Return 1 for a `raise` in a loop where indices or data decide whether the program reaches it; else raise its error."""
        inner = {i for i, _ in self.binders}
        for p in self.branches:
            if not p.relations and not p.names & inner:
                for size in sorted(p.names):
                    self.number(Affine.of(size))
        return 1 if self.masks or self.branches else self.raised(self.here, error)

    def asserted(self, test: Any) -> Any:
        """Return 0 for an `assert` that holds, as sizes and numbers decide; where data or indices decide, 1 if it fails. Sizes
        that it says are equal become one.
        """
        if isinstance(test, Condition) and not test.predicate.relations:
            for part in conjuncts(test.predicate):
                if isinstance(part, Compare) and part.op == "=":
                    self.same(part.left, part.right)
            if not test.predicate.names & {i for i, _ in self.binders}:
                for size in sorted(test.predicate.names):
                    self.number(Affine.of(size))
            elif self.holds_here(test.predicate):
                return 0
            test = test.predicate == TRUE if test.predicate in (TRUE, FALSE) else test
        if self.is_array(test):
            raise self.error("an assertion of an array", "write `assert np.all(…)`")
        if (known := known_truth(test)) is None:
            return self.choose(self.here, test, lambda: 0, lambda: 1)
        if not known:
            raise self.error("this assertion does not hold")
        return 0

    def unless_failed(self, value: Any, failed: Any) -> Any:
        """Return what a function returns: NaN if an assertion of it has failed."""
        if isinstance(failed, int):
            return value
        finished = self.once(self.chosen(self._compare("==", failed, 0), 1, 0), "finished")
        return self._nan_unless(finished, value)

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
        """Return the values of names after a `for` statement. `plain` says which of them it assigns rather than adds to."""
        return self._trace_for(Loop(k, pattern, bounds, body, names, plain, values))

    def _trace_for(self, loop: Loop) -> tuple[Any, ...]:
        """Return the values of names after a loop: as sums, as a recurrence, or iteration by iteration."""
        self.at(loop.k)
        if (taken := loop.taken) is not None:
            over, count = loop.bounds, len(flat(loop.pattern))
            pairs = Iteration(over.length, lambda a: (taken(a), over.item(a)))

            def chosen(test: Any, *both: Any) -> tuple[Any, ...]:
                items, values = both[:count], both[count:]

                def run(*values: Any) -> tuple[Any, ...]:
                    return tuple(loop.body(*items, *values))

                return self.branch(loop.k, test, loop.names, values, run, lambda *values: values)

            pattern = "taken", loop.pattern
            return self._trace_for(replace(loop, pattern=pattern, bounds=pairs, body=chosen))
        iterations = self._iterations_to_write(loop)
        if iterations is not None and isinstance(loop.bounds, Iteration):
            return self._one_after_the_other(iterations, loop.values, loop.body)
        if iterations is not None and len(iterations) <= LONG:
            return self._trace_short(iterations, loop)
        return self.or_spelt_out(
            loop,
            lambda: self._trace_loop(iterations, loop),
            lambda each: self._one_after_the_other(each, loop.values, loop.body),
        )

    def repeat_while(
        self,
        k: int,
        names: tuple[str, ...],
        plain: tuple[bool, ...],
        test: Callable[..., Any],
        values: tuple[Any, ...],
        body: Callable[..., Any],
        bound: tuple[str, Any, int] | None,
        ends: bool,
    ) -> tuple[Any, ...]:
        """Return the values of names after a `while` statement.

        If sizes decide how often it runs, its iterations are traced one by one. If data do, it becomes a loop of the largest
        possible length, which changes nothing once the condition fails. If a comment's bound is exceeded, what the loop changes
        is NaN.

        Args:
            bound: the name that counts iterations, the bound, and 1 if the count reaches it; the name is empty if a comment
                states the bound.
            ends: whether there is a `break` in the loop.
        """
        self.at(k)
        for done in range(ITERATIONS):
            self.at(k)
            holds = True if ends and bound is not None else test(*values)
            if bound is not None and (ends or self._on_data(holds)):
                counter, limit, more = bound
                left = counter, limit, more if counter else more - done
                loop = Loop(k, "iteration", (), body, names, plain, values)
                return self._repeat_at_most(loop, test, left, ends)
            if not self._decided_by_sizes(holds):
                return values
            values = tuple(body(*values))
        self.at(k)
        raise self.error(f"this loop runs more than {ITERATIONS} times", "write a `for` loop")

    def _repeat_at_most(
        self, loop: Loop, test: Callable[..., Any], bound: tuple[str, Any, int], ends: bool
    ) -> tuple[Any, ...]:
        """Return the values of names after a `while` loop with a bound on its iterations."""
        k, names, values = loop.k, loop.names, loop.values
        counter, limit, more = bound
        most = self.affine(limit, "how often this loop runs at most") + more
        if counter:
            most -= self.affine(values[names.index(counter)], f"where `{counter}` begins")

        def once(_: Any, *values: Any) -> tuple[Any, ...]:
            return self.branch(k, test(*values), names, values, loop.body, lambda *values: values)

        after = self._trace_for(replace(loop, bounds=(Index(self, most),), body=once))
        if counter:
            return after
        unfinished = test(*after)
        if ends:  # the last name says whether a `break` was reached
            unfinished = self.and_then(k, self._compare("==", after[-1], 0), lambda: unfinished)
        if known_truth(unfinished) is False:
            return after
        finished = self.once(self.chosen(unfinished, 0, 1), "finished")
        return tuple(
            new
            if new is old or isinstance(new, UnreadableValue)
            else self._bind(name, self._nan_unless(finished, new))
            for name, old, new in zip(names, values, after, strict=True)
        )

    def _nan_unless(self, finished: Value, value: Any) -> Any:
        """Return numbers unchanged where `finished` is 1, and NaN (0/0) where it is 0."""
        leaves: list[Any] = []
        rebuilt = self.flattened(value, leaves)
        return rebuilt(
            iter(
                [
                    self.computed("/", self.computed("*", leaf, finished), finished)
                    for leaf in leaves
                ]
            )
        )

    def _decided_by_sizes(self, test: Any) -> bool:
        """Whether sizes alone decide a condition, and it holds; these sizes become numbers."""
        if (known := known_truth(test)) is not None:
            return known
        decides = not isinstance(test, Value) or self.predicate_of(test) is not None
        p = self.condition(test) if decides else None
        if p is None or p.relations or p.names & {i for i, _ in self.binders}:
            raise self.error("data or indices decide how often this `while` loop runs", AT_MOST)
        for size in sorted(p.names):
            self.number(Affine.of(size))
        return p == TRUE

    def _trace_loop(self, iterations: list[Any] | None, loop: Loop) -> tuple[Any, ...]:
        """Return the values of names after a loop that only adds up, or carries values; else after its iterations one by one,
        if the count is constant.
        """
        if iterations is not None:
            after = self._as_one(loop)
            if after is None:
                return self._one_after_the_other(iterations, loop.values, loop.body)
            return after
        before = self.so_far()
        try:
            return self._trace_independent(loop)
        except TensorError as error:
            begun = not all(
                isinstance(v, UnreadableValue) and not isinstance(v, Carried) for v in loop.values
            )
            if not (begun and (isinstance(error, InOrder) or _reads_earlier(error, loop.names))):
                raise
        self.at(loop.k)
        self.back_to(before)
        if (over := self.mask_widest_range(loop.bounds)) is not None:
            return self._trace_for(replace(loop, bounds=over))
        return self.one_by_one(loop)

    def _trace_short(self, iterations: list[Any], loop: Loop) -> tuple[Any, ...]:
        """Return the values of names after a loop of few iterations: one by one, or as a loop if tracing each would take too
        long.
        """
        before, begun, values = self.so_far(), self.bound, loop.values
        first = self._one_after_the_other(iterations[:1], values, loop.body)
        counts = any(
            (isinstance(old, bool) or affine_of(old) is not None) and old is not new
            for old, new in zip(values, first, strict=True)
        )
        if (self.bound - begun) * len(iterations) <= WRITTEN_OUT or counts:
            return self._one_after_the_other(iterations[1:], first, loop.body)
        self.at(loop.k)
        self.back_to(before)
        if (after := self._as_one(loop, lasting=True)) is not None:
            return after
        return self._one_after_the_other(iterations, values, loop.body)

    def _as_one(self, loop: Loop, lasting: bool = False) -> tuple[Any, ...] | None:
        """Return the values after a loop that only adds up, or one that carries values; None if it can be neither, or if
        `lasting` and a name would have no value after it.

        Sums need no order, so they come first. But a loop with a list carries it first: nested loops that append to it then
        make one array.
        """
        ways = [(self.one_by_one, lasting), (self._trace_independent, lasting)]
        if not any(isinstance(value, list) for value in loop.values):
            ways = [(self._trace_independent, True), *ways[: 1 if lasting else 2]]
        for trace, lasts in ways:
            before = self.so_far()
            with suppress(TensorError):
                after = trace(loop)
                lost = (
                    isinstance(new, UnreadableValue)
                    and not isinstance(new, Carried | Appended)
                    and old is not LOCAL
                    for old, new in zip(loop.values, after, strict=True)
                )
                if not (lasts and any(lost)):
                    return after
            self.at(loop.k)
            self.back_to(before)
        return None

    def _one_after_the_other(
        self, iterations: list[Any], values: tuple[Any, ...], body: Callable[..., Any]
    ) -> tuple[Any, ...]:
        """Return the values of names after iterations that are traced one by one."""
        for item in iterations:
            values = tuple(body(*item, *values))
        return values

    def _trace_independent(self, loop: Loop) -> tuple[Any, ...]:
        """Return the values of names after a loop whose iterations do not read what earlier ones left."""
        index, size, item, within = self.open_iteration(loop, ragged=True)
        with self.scope(Binder(index, size), within) as scope:
            carried = [
                Carried(name, value, len(self.conditions), len(self.masks), again)
                for name, value, again in zip(loop.names, loop.values, loop.plain, strict=True)
            ]
            around, self.open = self.open, [c for c in carried if not c.plain]
            try:
                loop.body(*item(), *carried)
            finally:
                self.open = around
        self.at(loop.k)
        self._nothing_else_read(carried, scope.bindings)
        changed = sum(len(c.changes) for c in carried)
        bindings = self._share_lets(index, size, within, scope.bindings) if changed > 1 else None
        results: list[Any] = []
        for c in carried:
            if c.plain:
                if c.changes:
                    raise self.error(
                        f"this loop assigns to `{c.name}` again and adds to it", "use two names"
                    )
                results.append(gone(c.name))
                continue
            if not _in_any_order(c.changes):
                raise UnreadableError(c, self.place)
            result = c.start
            if any(change.op == "append" for change in c.changes):
                results.append(
                    self._appended_in_all(c, index, size, within, scope.bindings, bindings)
                )
                continue
            for change in c.changes:
                change.term = _bind_lets(change.term, scope.bindings, bindings)
                result = self._apply_change(c, result, change, index, size, within)
            results.append(self._change_in_place(c.start, result) if c.in_place else result)
        return tuple(results)

    def _nothing_else_read(
        self, carried: Sequence[Carried], bindings: Sequence[tuple[str, Term]]
    ) -> None:
        """Raise TensorError if an iteration reads, by another name, what the loop changes in place."""
        terms = [e for _, e in bindings] + [x.term for c in carried for x in c.changes]
        read = frozenset[str]().union(*(e.variables for e in terms)) - {x for x, _ in bindings}
        for c in carried:
            if c.in_place and not isinstance(c.start, Carried):
                self.require_no_alias(c.name, arrays(self.memory.of(c.start)), read)

    def _change_in_place(self, old: Any, new: Any) -> Any:
        """Return an array after a change in place; everything that shares its entries counts as changed."""
        if not isinstance(old, Value) or not isinstance(new, Value) or not self.is_array(old):
            return new
        shares = self.memory.change(old)
        if new.variable:
            self.memory.name(new.variable, shares)
        return new.of_nature(replace(old.nature, shares=shares, within=new.nature.within))

    def _iterations_to_write(self, loop: Loop) -> list[Any] | None:
        """Return the iterations of a loop over a container, or of constant count if an iteration may read what the previous one
        left; else None.
        """
        if isinstance(loop.bounds, Iteration):
            return self.fixed_iterations(loop.pattern, loop.bounds)
        if any(map(self._indices_decide, loop.bounds)):
            return None
        start, length, step = self._range_parts(loop.bounds)
        if any(loop.plain) and start.is_constant and length.is_constant:
            return [(start.constant + step * j,) for j in range(length.constant)]
        return None

    def _share_lets(
        self, index: str, size: Affine, within: Predicate, bindings: Sequence[tuple[str, Term]]
    ) -> dict[str, Term]:
        """Return an iteration's lets as arrays over all iterations, for several changes to read."""
        at, found = Affine.of(index), dict[str, Term]()
        for name, term in bindings:
            array = Value(self, Gen(index, size, guard(within, substitute(term, found))))
            whole = cast("Value", self._bind(name, array))
            found[name] = At(whole.term, at)
        return found

    def _apply_change(
        self, c: Carried, start: Any, change: Change, index: str, size: Affine, within: Predicate
    ) -> Any:
        """Return a name's value after all iterations of one change."""
        p = conj(within, change.condition)
        match change.op:
            case "+":
                total = self.summed(index, size, guarded(p, change.term))
                if change.numbers == "int":
                    total = total.of_nature(Nature(numbers="int"))
                return self._augment("+", start, total, c.name, change.rebinds)
            case "*":
                factor = Value(self, change.term)
                if p != TRUE:
                    factor = self.chosen(self.truth_of(p), factor, 1)
                array = Value(self, Gen(index, size, factor.term))
                total = self.built("prod", array)
                return self._augment("*", start, total, c.name, change.rebinds)
        return self._apply_store(c, start, change, index, size, p)

    def _appended_in_all(
        self,
        c: Carried,
        index: str,
        size: Affine,
        within: Predicate,
        bindings: Sequence[tuple[str, Term]],
        arrays: dict[str, Term] | None,
    ) -> Any:
        """Return a list after all iterations of a loop that appends to it."""
        known = isinstance(c.start, Carried | Appended | Selected) or c.start == []
        if not known and not lists_of(c.start):
            raise self.error(f"`append` to {kind(c.start)}", "begin with an empty list: `y = []`")
        if within == TRUE:
            self.ensure_nonnegative_count(size)
        with self.scope(Binder(index, size), within) as scope:
            block = self.block_of(c.name, c.changes)
        assert block is not None
        value, chosen, axes = block
        if within != TRUE and chosen is None:
            chosen = self._ones(self.dims(value)[:axes])

        def in_all(value: Value) -> Value:
            inner = _bind_lets(lets(scope.bindings, value.term), bindings, arrays)
            inner = guarded(within, inner)
            return Value(self, Gen(index, size, inner)).of_nature(value.nature)

        made, flags = in_all(value), None if chosen is None else in_all(chosen)
        if flags is not None and within == TRUE and _is_index_or_zero(value.term, index):
            # What is not taken may be anything, and entries at these indices need not be sought.
            made = Value(self, Gen(index, size, self.index_term(Affine.of(index))))
            made.of_nature(value.nature)
        if isinstance(c.start, Carried | Appended):
            made = self.once(made, c.name)
            flags = None if flags is None else self.once(flags, "chosen")
            change = Change(
                "append", made.term, chosen=None if flags is None else flags.term, axes=axes + 1
            )
            change.entry = made
            self._record(c.start, change)
            return c.start
        return self._appended_to(c.name, c.start, made, flags, axes)

    def _ones(self, dims: Sequence[Affine]) -> Value:
        """Return an array of ones."""
        return self.build(dims, lambda *_: self.whole(1))

    def block_of(
        self, name: str, changes: Sequence[Change]
    ) -> tuple[Value, Value | None, int] | None:
        """Return what an iteration appends to a list: the entries, whether each is taken, and the number of further axes; None
        for nothing.
        """
        if not changes:
            return None
        for change in changes:
            if change.op != "append" or (change.axes and len(changes) > 1):
                raise self.error(
                    f"`{name}` is appended to in several loops of one iteration, or also changed otherwise",
                    "append to a list of its own in each, and join them: `a + b`",
                )
        values = [Value(self, guarded(x.condition, x.term)) for x in changes]
        entries = [
            value if x.entry is None else x.entry for x, value in zip(changes, values, strict=True)
        ]
        flags = [self._compute_append_flag(change) for change in changes]
        chosen = None
        if any(flag is not None for flag in flags):
            each = [self.whole(1) if flag is None else flag for flag in flags]
            chosen = self.whole(self.written_out(each)) if each[1:] else each[0]
        if len(values) == 1:
            return values[0].of_nature(nature_of(entries)), chosen, changes[0].axes
        made = self.written_out(values)
        if isinstance(made, list):
            raise self.error("a list's entries have one shape", "append what is like its first")
        return made.of_nature(nature_of(entries)), chosen, 1

    def _compute_append_flag(self, change: Change) -> Value | None:
        """Return 1 where an iteration appends, else 0, for each entry of a block; None if it always does."""
        if change.condition == TRUE and not change.masks and change.chosen is None:
            return None
        flag = self.truth_of(change.condition)
        for mask in change.masks:
            flag = self.product(flag, mask)
        if not change.axes:
            return flag
        flag = self.once(flag, "chosen")
        block = Value(self, change.term)
        inner = self._ones(self.dims(block)[: change.axes])
        inner = inner if change.chosen is None else Value(self, change.chosen)
        return self.spread((flag, inner), self.product)

    def _appended_to(
        self, name: str, first: Any, made: Value, chosen: Value | None, axes: int
    ) -> Any:
        """Return a list with entries appended, some of which may not be taken."""
        nature = replace(made.nature, lists=1)
        begins_empty = first is None or first == []
        if axes and (chosen is None or not begins_empty):
            made = self.rows_in_a_row(made, axes)
            chosen = None if chosen is None else self.rows_in_a_row(chosen, axes)
        if isinstance(first, Selected):
            return self._more_chosen(
                first, made, self._ones(self.dims(made)[:1]) if chosen is None else chosen
            )
        if not begins_empty:
            first = self._bind(name, first)
            made = self.joined_lists(first, made.of_nature(nature))
            if chosen is not None:
                before = self._ones(self.dims(self.whole(first))[:1]).of_nature(Nature(1))
                chosen = self.joined_lists(before, chosen.of_nature(Nature(1)))
        if chosen is None:
            return self._bind(name, made.of_nature(nature))
        chosen = as_truth(self.once(chosen, "chosen"))
        return Selected(self, self.once(made, name).of_nature(nature), chosen, chosen.term)

    def _apply_store(
        self, c: Carried, start: Any, change: Change, index: str, size: Affine, p: Predicate
    ) -> Any:
        """Return an array after all iterations of a loop have stored into it."""
        at = change.at
        if change.op == "=":
            if len(c.changes) > 1 and not self._apart(c.changes, index, size):
                raise self.in_order(
                    f"`{c.name}` is assigned to several times in one iteration",
                    "write one assignment",
                )
            if self._meets_later(change, change, index, size):
                raise self.in_order(
                    f"several iterations may assign to one entry of `{c.name}`",
                    "index it by the loop's index: `y[i] = …`",
                )
            at = tuple(a for a in at if index not in a.names)
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
        with self._open_scopes(binders):
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

    def in_order(self, message: str, help_: str) -> InOrder:
        """Return the error that makes the caller trace the loop as a recurrence."""
        return InOrder(message, help_, self.place)

    def _apart(self, changes: list[Change], index: str, size: Affine) -> bool:
        """Whether the changes of an iteration may be made one after the other, each in all iterations."""
        return not any(
            self._meets_later(after, before, index, size)
            for k, after in enumerate(changes)
            for before in changes[:k]
        )

    def _meets_later(self, change: Change, other: Change, index: str, size: Affine) -> bool:
        """Whether a change reaches an entry that another reaches in a later iteration."""
        later = Affine.of(self.name(index))
        places = dict(zip(other.places, map(Affine.of, change.places), strict=True))
        then = renamed(other.condition, {index: later, **places})
        binders = (*self.binders, Binder(index, size), Binder(next(iter(later.names)), size))
        return not sets.is_impossible(
            binders, conj(change.condition, then, compare("<", index, later))
        )

    # Changes

    def augment(self, k: int, op: str, name: str, target: Any, value: Any) -> Any:
        """Return the value of a name after `s += e` and the like."""
        self.at(k)
        list_ = self._growing(target)
        if op == "+" and list_ is not None and getattr(value, "written", None):
            return self._extend(list_, value)
        if lists_of(target) and op == "+" and not isinstance(target, Carried):
            return self._bind(name, self._change_in_place(target, self.joined_lists(target, value)))
        made = self._augment(op, target, value, name)
        return self._bind(name, self._change_in_place(target, made))

    def augment_copy(self, k: int, op: str, name: str, target: Any, value: Any) -> Any:
        """Return the value of a name after `s = s + e` in a loop: the array that `s` was stays unchanged."""
        self.at(k)
        if lists_of(target) and op == "+" and not isinstance(target, Carried):
            return self._bind(name, self.joined_lists(target, value))
        return self._bind(name, self._augment(op, target, value, name, rebinds=True))

    def _augment(self, op: str, target: Any, value: Any, name: str, rebinds: bool = False) -> Any:
        """Return `target op value`; in a loop, record the change, which is computed at the loop's end."""
        if not isinstance(target, Carried):
            if target is UNSET or target is LOCAL:
                raise self.error(f"`{name}` has no value yet", f"begin with `{name} = 0`")
            adds_nothing = op == "+" and isinstance(value, int) and value == 0
            return target if adds_nothing else self.binary(self.here, op, target, value)
        if op == "+" and (lists_of(target.begun) or isinstance(target.begun, Appended)):
            return self._extend(target, value)
        if op == "-":
            op, value = "+", self.minus(self.here, value)
        if op == "/":
            op, value = "*", self.computed("/", 1, value)
        if op not in "+*":
            raise self.in_order(target.message, target.help)
        numbers = numbers_of(value)
        if op == "*" or not isinstance(value, int) or value != 0:
            self._record(
                target, Change(op, self.whole(value).term, rebinds=rebinds, numbers=numbers)
            )
        return target

    def _extend(self, target: Any, value: Any) -> Any:
        """Record `y += [a, b]` in a loop as two appends."""
        entries = value if isinstance(value, list) else getattr(value, "written", None)
        if entries is None:
            raise self.error(
                f"`{target.name}` grows in each iteration by a list that is not written out",
                f"append its entries in a loop: `for e in a: {target.name}.append(e)`",
            )
        for entry in entries:
            target = self.append(self.here, target, entry)
        return target

    def _record(self, c: Carried | Appended, change: Change) -> None:
        """Record a change of a name in an iteration, with the conditions under which it happens."""
        change.under = conj(*self.conditions[c.depth :])
        change.condition = conj(change.under, change.condition)
        masks = self.masks[c.masked :]
        if change.op == "append":
            change.masks = tuple(masks)
        elif change.op != "=":
            for mask in masks:
                change.term = self._mask_change(mask, change)
        c.changes.append(change)

    def _mask_change(self, mask: Value, change: Change) -> Term:
        """Return what a change adds, multiplies or appends: where the mask is 0, nothing."""
        value = Value(self, change.term)
        if change.op == "*":
            return self.chosen(mask, value, 1).term
        if value.type == REAL:
            return Call(find_function("kept"), (mask.term, change.term))
        return self.chosen(mask, value, 0).term

    def append_all(
        self, k: int, pattern: Pattern, bounds: Any, body: Callable[..., Any], begun: Any
    ) -> Any:
        """Return a list after the loop of a comprehension."""

        def run_iteration(*values: Any) -> tuple[Any, ...]:
            return (body(*values),)

        loop = Loop(k, pattern, bounds, run_iteration, ("listed",), (False,), (begun,))
        (made,) = self._trace_for(loop)
        return made

    def append_if(self, k: int, test: Any, body: Callable[..., Any], begun: Any) -> Any:
        """Return a list after the condition of a comprehension."""

        def run_branch(value: Any) -> tuple[Any, ...]:
            return (body(value),)

        (made,) = self.branch(k, test, ("listed",), (begun,), run_branch, lambda value: (value,))
        return made

    def _growing(self, target: Any) -> Appended | None:
        """Return the list that a loop which carries values appends to under this name; None for others."""
        if isinstance(target, Value):
            return self.lists.get(target.variable)
        return target if isinstance(target, Appended) else None

    def append(self, k: int, target: Any, value: Any) -> Any:
        """Return the list after `y.append(e)`."""
        self.at(k)
        if isinstance(target, Carried):
            term, layout = self.pack(value)
            if layout is not None:
                raise self.error("a list of tuples", "append to a list for each part")
            entry = Value(self, term).of_nature(nature_of([value]))
            self._record(target, Change("append", term, entry=entry))
            return target
        target = self._growing(target) or target
        if isinstance(target, Appended):
            entry = self.once(self.whole(value), "entry")
            if is_tuple(entry):
                raise self.error("a list of tuples", "append to a list for each part")
            if numbers_of(value) == "int":
                entry.of_nature(replace(entry.nature, numbers="int", within=range_of(value)))
            self._record(target, Change("append", entry.term, entry=entry))
            (*before, last) = target.changes
            if not before and last.condition == TRUE and not last.masks:
                target.value = entry
            return target
        if isinstance(target, list):
            return [*target, self._bind("entry", value)]
        if isinstance(target, Selected) and len(self.dims(target.mask)) == 1:
            entry = self.written_out([self._bind("entry", value)])
            return self._more_chosen(target, entry, self.written_out([self.whole(1)]))
        if isinstance(target, Value) and (lists_of(target) or target.written is not None):
            return self._bind(
                "entries", self._change_in_place(target, self.joined_lists(target, [value]))
            )
        raise self.error(f"`append` to {kind(target)}", "begin with an empty list: `y = []`")

    def store(
        self, k: int, op: str, name: str, target: Any, indices: tuple[Any, ...], value: Any
    ) -> Any:
        """Return the array after `y[i] = e` or `y[i] += e`."""
        self.at(k)
        indices = indices[0] if len(indices) == 1 and isinstance(indices[0], tuple) else indices
        indices = tuple(map(self.as_integer, indices))
        for j, place in enumerate(indices):
            if (cases := self.by_cases(place)) is not None:
                ends = indices[:j], indices[j + 1 :]
                return self._stored_by_cases(k, op, name, target, cases, ends, value)
        root = target.start if isinstance(target, Carried) else target
        while isinstance(root, Carried):
            root = root.start
        root = self._structure(root)
        if isinstance(root, dict | list) and not isinstance(target, Carried):
            return self._replace_part(k, op, name, root, indices, value)
        if root is UNSET or root is LOCAL:
            raise self.error(f"`{name}` has no value yet", f"begin with `{name} = np.zeros(n)`")
        self._refuse_change_of_argument(name, root)
        if op in ("&", "|", "^", "<<", ">>") and numbers_of(root) != "bool":
            raise self.error(f"`{op}=` of entries that are not conditions", "write `y[i] = …`")
        if isinstance(target, Carried) and any(map(is_written, indices)):

            def one(target: Any, indices: tuple[Any, ...], value: Any, op: str) -> Any:
                return self.store(k, op, name, target, indices, value)

            own = self.dims(self.whole(root))
            return self.stored_by_lists(one, target, indices, value, op, True, own)
        if any(isinstance(place, Selected) for place in indices):
            indices = self._pairs_as_condition(self.whole(root), indices, value)
        if isinstance(indices[0], slice) and any(
            map(self._indices_decide, (indices[0].start, indices[0].stop))
        ):
            if any(place != slice(None) for place in indices[1:]):
                raise self.error(*STORED_IN_SLICE)
            indices = (self.in_slice(indices[0], self.dims(self.whole(root))[0]),)
        if len(indices) == 1 and numbers_of(indices[0]) == "bool" and self.is_array(indices[0]):
            if not isinstance(target, Carried):
                value, op = self._where_it_holds(indices[0], root, value, op), ""
            elif op in ("+", "-"):
                value = self._where_it_holds(indices[0], self.whole(root), value, "", 0)
            else:  # which may be what an earlier iteration has left
                raise self.in_order(target.message, target.help)
            indices = (...,)
        if not isinstance(target, Carried):
            self._check_numbers(name, root, value)
            change = self.stored_once if self._of_several_places(indices) else self.stored
            made = change(self.whole(root), indices, value, op)
            return self._bind(name, self._change_in_place(root, made))
        return self._record_store(target, self.whole(root), indices, value, op)

    def _stored_by_cases(
        self,
        k: int,
        op: str,
        name: str,
        target: Any,
        index: Index,
        around: tuple[tuple[Any, ...], tuple[Any, ...]],
        value: Any,
    ) -> Any:
        """Return the array after `y[max(i - 1, 0)] = e`: one assignment for each case of the index."""
        value = self._bind("new", value)
        possible = self._possible_cases(index)

        def from_case(j: int, array: Any) -> tuple[Any]:
            p, a = possible[j]
            places = (*around[0], Index(self, a), *around[1])

            def here(array: Any) -> tuple[Any]:
                return (self.store(k, op, name, array, places, value),)

            if j == len(possible) - 1:
                return here(array)
            test = Condition(self, p)
            (made,) = self.branch(
                k, test, (name,), (array,), here, lambda array: from_case(j + 1, array)
            )
            return (made,)

        return from_case(0, target)[0]

    def changed(self, k: int, how: str, name: str, target: Any, *given: Any) -> Any:
        """Return the array after `y.fill(e)`, `np.copyto(y, e)`, `np.fill_diagonal(y, e)`, or `np.add.at(y, k, e)`, which adds
        once per index.
        """
        self.at(k)
        if how in ("reverse", "sort"):
            return self._reordered(how, name, target, *given)
        *where, value = given
        if how in ("fill", "copyto"):
            return self.store(k, "", name, target, (...,), value)
        if how == "extend":
            return self.augment(k, "+", name, target, value)
        root = target
        while isinstance(root, Carried):
            root = root.start
        if how == "fill_diagonal":
            n, *others = self.dims(self.whole(root))
            along = self.built("arange", Index(self, reduce(self.same, others, n)))
            return self.store(k, "", name, target, (along,) * (1 + len(others)), value)
        places = where[0] if isinstance(where[0], tuple) else tuple(where)
        op = "+" if how == "add" else "-"
        if not self._of_several_places(places):
            return self.store(k, op, name, target, places, value)
        if isinstance(target, Carried):
            raise self.error(
                f"`{how}.at` in a loop",
                "loop over the places too: `for e in range(len(k)): y[k[e]] += x[e]`",
            )
        self._refuse_change_of_argument(name, root)
        self._check_numbers(name, root, value)
        value = self.negative(self.whole(value)) if op == "-" else value
        made = self.stored(self.whole(root), places, value, "+")
        return self._bind(name, self._change_in_place(root, made))

    def _reordered(self, how: str, name: str, target: Any, descending: Any = False) -> Any:
        """Return the list or array after `y.reverse()` or `y.sort()`."""
        list_ = self._growing(target) or target
        if isinstance(list_, UnreadableValue):
            raise self.in_order(list_.message, list_.help)
        if not isinstance(target, list):
            self._refuse_change_of_argument(name, target)
        if how == "sort":
            made = self.in_order_of_size(target, descending)
        elif isinstance(target, list):
            made = target[::-1]
        elif target.written is not None:
            made = self.written_out(target.written[::-1])
        else:
            made = self.subscript(target, (slice(None, None, -1),))
        return self._bind(name, self._change_in_place(target, made))

    def _refuse_change_of_argument(self, name: str, root: Any) -> None:
        """Raise TensorError if `root`, the value of `name`, shares entries with an argument, since a change would reach
        the caller.
        """
        of = arrays(self.memory.of(root))
        if not of.isdisjoint(self.reserved | self.borrowed):
            if lists_of(root):
                raise self.error(
                    f"`{name}` holds arrays of the caller",
                    f"begin with copies: `{name} = [a.copy(), b.copy()]`",
                )
            raise self.error(
                f"`{name}` is the caller's, and this changes it",
                f"begin with a copy: `y = {name}.copy()`",
            )

    def _present_entry(self, target: Carried, root: Value, indices: tuple[Any, ...]) -> Any:
        """Return what an array that a loop changes has at an index within an iteration, as far as known."""
        if not target.changes_around:
            return self.entry(self.here, self._array_before(target, root), *indices)
        last = target.changes[-1] if target.changes else None
        spelt = [affine_of(p) is not None for p in indices]
        under = conj(*self.conditions[target.depth :])
        if last and last.op == "=" and last.under == under and all(spelt):
            at = [self.from_start(p, n) for p, n in zip(indices, self.dims(root), strict=False)]
            if tuple(at) == last.at and len(at) == len(self.dims(root)):
                return Value(self, last.term).of_nature(Nature(numbers=root.nature.numbers))
        raise InOrder(target.message, target.help, self.place)

    def _array_before(self, target: Carried, root: Value) -> Value:
        """Return an array as it is before the loops that change it, by a name that nothing in them changes."""
        while isinstance(target.start, Carried):
            target = target.start
        if not isinstance(root.term, Var):
            return root
        bindings = self.scopes[target.depth - 1].bindings
        known = target.before
        bound = None if known is None else known.unchecked
        if known is None or (getattr(bound, "name", ""), root.term) not in bindings:
            name = self.name(root.term.name)
            bindings.append((name, root.term))
            known = Value(self, Var(name, root.type), root.layout)
            target.before = known.of_nature(Nature(numbers=root.nature.numbers))
        return known

    def one_place(self, k: int, index: Any) -> Any:
        """Return the first index of `y[i][j] = e`, which selects a row."""
        self.at(k)
        index = self.as_integer(index)
        if isinstance(index, int | str | Index):
            return index
        raise self.error(
            "this stores in a part of a part",
            "write all places in one bracket: `y[1:, 0] = …`, `y[1] = …`",
        )

    def _of_several_places(self, indices: tuple[Any, ...]) -> bool:
        """Whether one array of indices selects the entries, and may select one twice."""
        many = [p for p in indices if is_written(p) or self.is_array(p)]
        return bool(many) and not any(map(self._counting, many))

    def _pairs_as_condition(
        self, root: Value, indices: tuple[Any, ...], value: Any
    ) -> tuple[Any, ...]:
        """Return the arguments of `D[p] = 0` for `D[i, j] = 0`, where i and j are the rows and columns of pairs."""
        pairs = [p.pairs for p in indices if isinstance(p, Selected) and p.pairs]
        if len(pairs) != len(indices) or [p.axis for p in pairs] != [0, 1]:
            raise self.error(
                "this stores at entries that data choose", "keep every entry: `np.where(p, new, y)`"
            )
        if not isinstance(value, Selected) and self.dims(self.whole(value)):
            return tuple(pairs[0].constants())
        mask = indices[0].mask
        for mine, theirs in zip(self.dims(root), self.dims(mask), strict=True):
            self.same(mine, theirs)
        return (mask,)

    def _where_it_holds(self, test: Any, root: Any, value: Any, op: str, other: Any = None) -> Any:
        """Return the array after `y[y > 1] = 0`: `where(y > 1, 0, y)`; `other` is the value where the condition fails."""
        old = self.whole(root)
        if isinstance(value, Selected) and value.written is self.whole(test).term:
            value = value.array
            if len(self.dims(value)) > len(self.dims(old)):
                raise self.error("a chosen part of more dimensions than the array has")
        elif self.dims(value := self.whole(value)):
            raise self.error(
                "an array for the entries where a condition holds: their number is data",
                "keep every entry: `y = np.where(p, new, y)`",
            )
        made = self.computed(op, old, value) if op else value
        return self.chosen(self._widen_condition(test, old), made, old if other is None else other)

    def _widen_condition(self, test: Any, array: Value) -> Any:
        """Return a condition on an array's first axes as one on all axes."""
        rest = [None] * (len(self.dims(array)) - len(self.dims(self.whole(test))))
        return self.subscript(self.whole(test), (..., *rest)) if rest else test

    def _check_numbers(self, name: str, root: Any, value: Any) -> None:
        """Raise TensorError if NumPy would round a value that is stored in an array of integers or conditions."""
        numbers = root.nature.numbers if isinstance(root, Value) and not lists_of(root) else ""
        if numbers and numbers != numbers_of(value):
            raise self.error(
                f"`{name}` is an array of type {numbers} in NumPy, which would round this",
                "begin with floats: `np.zeros(n)`, `np.arange(n) * 1.0`",
            )

    def _replace_part(
        self, k: int, op: str, name: str, root: Any, keys: tuple[Any, ...], value: Any
    ) -> Any:
        """Return a container after `d["a"] = e` or `d["a"][i] += e`."""
        key, *inner = keys
        if isinstance(root, list) and isinstance(key, int) and not -len(root) <= key < len(root):
            raise self.error(f"entry {key} of a list of {len(root)}")
        old = root.get(key) if isinstance(root, dict) else root[key]
        if inner:
            value = self.store(
                k, op, f"{name}_{key}", UNSET if old is None else old, tuple(inner), value
            )
        elif op:
            value = self.computed(op, old, value)
        self.memory.change_parts(root)
        made = root.copy()
        made[key] = value
        return made

    def _record_store(
        self, target: Carried, root: Value, indices: tuple[Any, ...], value: Any, op: str
    ) -> Carried:
        """Record that an iteration stores at entries of an array."""
        own = self.dims(root)
        self._check_numbers(target.name, root, value)
        if op not in ("", "+", "-"):
            value, op = (
                self.binary(self.here, op, self._present_entry(target, root, indices), value),
                "",
            )
        masks = self.masks[target.masked :] if not op else []
        for mask in masks[::-1]:
            value = self.chosen(mask, value, self._present_entry(target, root, indices))
        value = self.minus(self.here, value) if op == "-" else value
        names = tuple(self.name(letter) for letter, _ in zip("abcdefgh", own, strict=False))
        spelt = self._as_data(self._expand_ellipsis(indices, len(own)))
        spelt = tuple(map(self.from_either_end, spelt, own))
        if any(isinstance(p, Value | Data) or (not op and sought_of(p) is not None) for p in spelt):
            raise self.in_order(
                f"several iterations may assign to one entry of `{target.name}`",
                "index it by the loop's index: `y[i] = …`",
            )
        axes = [self._taken(p, n, root, j) for j, (p, n) in enumerate(zip(spelt, own, strict=True))]
        lengths = [axis.length for axis in axes if axis.length is not None]
        at = [axis.start for axis in axes if isinstance(axis, Axis) and axis.length is None]
        value = self.once(self.filling(value, lengths), "new")
        with self._open_scopes(list(map(Binder, names, own))) as (_, here):
            stored_here, entry = self.new_entry(axes, here, value)
            for axis, k in zip(axes, here, strict=True):
                if axis.is_here:
                    entry = self._choose_scalar(axis.is_here(k), entry, self.whole(0))
            term = entry.term
        change = Change("=" if not op else "+=", term, stored_here, names, tuple(at))
        self._record(target, change)
        return target


def _reads_earlier(error: TensorError, names: Sequence[str]) -> bool:
    """Whether an error is that an iteration reads one of the names as an earlier iteration left it."""
    of = error.of if isinstance(error, UnreadableError) else None
    return isinstance(of, Carried) and of.name in names


def _where_defined(value: Any) -> tuple[Any, Predicate]:
    """Return a value that can be read everywhere, and the predicate under which it is defined."""
    if not isinstance(value, Value) or value.defined is None:
        return value, TRUE
    return Value(value.tracer, value.unchecked, value.layout).of_nature(value.nature), value.defined


def _bind_lets(
    e: Term, bindings: Sequence[tuple[str, Term]], arrays: dict[str, Term] | None
) -> Term:
    """Return a term with the names in it bound by lets, or replaced by entries of arrays over all iterations."""
    return lets(bindings, e) if arrays is None else substitute(e, arrays)


def _in_any_order(changes: Sequence[Change]) -> bool:
    """Whether the changes of a name may be made one after the other, each in all turns: `s *= a` and `s += b` may not."""
    kinds = {change.op for change in changes}
    return len(kinds) < 2 or kinds in ({"+", "+="}, {"=", "+="})


def _is_index_or_zero(e: Term, index: str) -> bool:
    """Whether a number is an index, or 0 where that is one of some places."""
    while isinstance(e, Guard | Let):
        if isinstance(e, Guard) and not all(isinstance(q, Or) for q in conjuncts(e.condition)):
            return False  # unlike `i != j`, which is `i < j or j < i`
        e = e.body
    return e == Const(Affine.of(index))
