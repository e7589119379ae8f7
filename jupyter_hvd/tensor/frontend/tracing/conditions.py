"""Conditions: comparisons, their combinations, and choices between values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import replace
from fractions import Fraction
from functools import reduce
from itertools import pairwise
from typing import Any, cast

from ...language.affine import Affine
from ...language.function import find_function
from ...language.pairs import Laid
from ...language.predicates import (
    FALSE,
    TRUE,
    Predicate,
    Related,
    compare,
    conj,
    disj,
    negate,
)
from ...language.terms import (
    Add,
    At,
    Call,
    Const,
    Gen,
    Guard,
    Pair,
    Proj,
    Term,
    Var,
    lets,
    strip_entries,
    strip_guards,
)
from ...language.types import REAL, Array, Layout, Product, TupleSet
from ...polyhedral import sets
from ..tracers import (
    Case,
    Condition,
    Data,
    Index,
    Nature,
    Shares,
    Value,
    as_truth,
    describe,
    is_index_array,
    kind,
    lists_of,
    numbers_of,
)
from .arrays import Wholes, entry_aligned, nature_of
from .packing import guarded, is_numpy_scalar, is_truth


class Conditions(Wholes):
    """`p and q`, `i < j`, `(i, j) in R`, `a if p else b`."""

    # What classes that extend this one define
    negated_search: Callable[[Predicate], Predicate | None]
    integers_as_numbers: Callable[[Any], Any]
    compared_integers: Callable[[str, Any, Any], Condition | bool | None]
    cases_of: Callable[[Any], tuple[Case, ...] | None]
    piecewise: Callable[[Sequence[Case]], Any]
    _are_plain: Callable[[Any], bool]
    _structure: Callable[[Any], Any]

    def and_then(self, k: int, left: Any, right: Callable[[], Any]) -> Any:
        """Return `left and right`. The right side is only evaluated where the left holds."""
        self.at(k)
        left = self.as_condition(left)
        if (known := known_truth(left)) is not None:
            return right() if known else left
        value = right() if self.is_array(left) else self._within_condition(k, left, right)
        return self._both(left, value)

    def or_else(self, k: int, left: Any, right: Callable[[], Any]) -> Any:
        """Return `left or right`. The right side is only evaluated where the left does not hold."""
        self.at(k)
        left = self.as_condition(left)
        if (known := known_truth(left)) is not None:
            return left if known else right()
        if self.is_array(left):
            return self._either_of(left, right())
        otherwise = self._negated(left)
        value = self._within_condition(k, otherwise, right)
        if self._on_data(value) and not self._on_data(left):
            value = as_truth(self.conditioned(self.condition(otherwise), value))
        return self._either_of(left, value)

    def as_condition(self, value: Any) -> Any:
        """Return the condition `value != 0` for an integer that data decide; other values unchanged."""
        is_number = isinstance(value, Value) and value.type == REAL and numbers_of(value) == "int"
        return self._compare("!=", value, 0) if is_number else value

    def _within_condition(self, k: int, truth: Any, make: Callable[[], Any]) -> Any:
        """Return `make()` under a truth value, as one condition."""
        holding: Any = nullcontext()
        if self._on_data(truth):
            p, data = self.parts_of_truth(truth)
            holding = self.where(lambda: data)
        else:
            p = self.condition(truth)
        with self.scope(condition=p) as scope, holding:
            value = make()
        self.at(k)
        if not scope.bindings or not isinstance(value, Value):
            return value
        made = Value(self, lets(scope.bindings, value.term), value.layout)
        return as_truth(made) if self._on_data(value) else made.of_nature(value.nature)

    def parts_of_truth(self, truth: Value) -> tuple[Predicate, Value]:
        """Split a truth value into the predicate that indices decide, and what data decide where that holds."""
        p, e = strip_guards(truth.term)
        if p != TRUE:
            return p, as_truth(Value(self, e))
        root, places = strip_entries(e)
        if isinstance(root, Var) and root.name in self.truths:
            read = self.read(Value(self, self.truths[root.name]), *places)
            p, _ = strip_guards(read.term)
        return p, truth

    def both(self, k: int, left: Any, right: Any) -> Any:
        """Return `left & right`, of arrays entry by entry; called by rewritten code."""
        self.at(k)
        return self._both(left, right)

    def _both(self, left: Any, right: Any) -> Any:
        """Return `left & right` without a source location."""
        if self.is_array(left) or self.is_array(right):
            return self._combine_entrywise(self._both, left, right)
        if self._on_data(left) or self._on_data(right):
            return as_truth(self.product(self.truth(left), self.truth(right)))
        return Condition(self, conj(self.condition(left), self.condition(right)))

    def either(self, k: int, left: Any, right: Any) -> Any:
        """Return `left | right`, of arrays entry by entry; called by rewritten code."""
        self.at(k)
        return self._either_of(left, right)

    def _either_of(self, left: Any, right: Any) -> Any:
        """Return `left | right` without a source location."""
        if self.is_array(left) or self.is_array(right):
            return self._combine_entrywise(self._either_of, left, right)
        if self._on_data(left) or self._on_data(right):
            a, b = self.truth(left), self.truth(right)
            return as_truth(Value(self, Call(find_function("maximum"), (a.term, b.term))))
        return Condition(self, disj(self.condition(left), self.condition(right)))

    def negated(self, k: int, value: Any) -> Any:
        """Return `not value` or `~value`, of arrays entry by entry; called by rewritten code."""
        self.at(k)
        value = self.as_condition(value)
        known = known_truth(value)
        return self._negated(value) if known is None else not known

    def _negated(self, value: Any) -> Any:
        """Return `~value` without a source location."""
        if self.is_array(value):
            return self._combine_entrywise(self._negated, value)
        if self._on_data(value):
            return as_truth(
                Value(self, Call(find_function("equal"), (self.truth(value).term, Const(0))))
            )
        return Condition(self, self._negation(self.condition(value)))

    def _combine_entrywise(self, combine: Callable[..., Any], *values: Any) -> Any:
        """Return a combination of arrays of conditions entry by entry, whose entries are conditions again."""
        known = [numbers_of(value) == "bool" for value in values]

        def entry(*entries: Value) -> Value:
            pairs = zip(entries, known, strict=True)
            return self.whole(combine(*(as_truth(e) if truth else e for e, truth in pairs)))

        return as_truth(self.spread(values, entry))

    def _on_data(self, value: Any) -> bool:
        """Whether this is a truth value that only data decide: an indicator, 1 or 0."""
        return (
            isinstance(value, Value)
            and self.predicate_of(value) is None
            and (numbers_of(value) == "bool" or self.indicates(value.term))
        )

    def indicates(self, e: Term) -> bool:
        """Whether a term is an indicator, also by a name that was given to one."""
        root, _ = strip_entries(e)
        return (isinstance(root, Var) and root.name in self.truths) or is_truth(e)

    def truth(self, value: Any) -> Value:
        """Return a truth value as 1 or 0."""
        return value if self._on_data(value) else self.truth_of(self.condition(value))

    def holds_here(self, p: Predicate) -> bool:
        """Whether a predicate holds at all indices under the conditions around."""
        here = conj(*self.conditions)
        return sets.is_impossible(tuple(self.binders), conj(here, self._negation(p)))

    def _negation(self, p: Predicate) -> Predicate:
        """Return the negation of a predicate. Raises TensorError if it searches a relation."""
        negation = negate(p)
        if negation is None:
            negation = sets.complement(p, tuple(self.binders))
        if negation is None:
            negation = self.negated_search(p)
        if negation is None:
            raise self.error(
                "this condition has no negation: it searches a relation",
                "pass the negated condition as a boolean array",
            )
        return negation

    def compare(self, k: int, ops: tuple[str, ...], *sides: Any) -> Any:
        """Return the chained comparison `a < b <= c`; called by rewritten code.

        It is a condition if indices decide, an indicator, 1 or 0, if data do.

        Args:
            ops: the operators; there is one side more.
        """
        self.at(k)
        if all(map(lists_of, sides)):
            raise self.error(
                "a comparison of lists is one answer in Python", "compare arrays: `np.array([…])`"
            )
        results = [
            self._compare(op, left, right)
            for op, (left, right) in zip(ops, pairwise(sides), strict=True)
        ]
        if all(isinstance(result, bool) for result in results):
            return all(results)
        return as_truth(reduce(self._both, results))

    def _compare(self, op: str, left: Any, right: Any) -> Any:
        """Return a comparison of two values of any kind."""
        plain = [side is None or isinstance(side, str) for side in (left, right)]
        if any(plain) and op in ("is", "is not", "==", "!="):
            return (all(plain) and left == right) == (op in ("is", "=="))
        if op in ("==", "!=") and isinstance(left, tuple) and isinstance(right, tuple):
            if len(left) != len(right):
                return op == "!="
            pairs = zip(left, right, strict=True)
            each = [self._compare("==", *pair) for pair in pairs]
            open_ = [same for same in each if not isinstance(same, bool)]
            if not open_ or False in each:
                return all(same is True for same in each) == (op == "==")
            same = reduce(self._both, open_)
            return same if op == "==" else self._negated(same)
        if op in ("in", "not in"):
            inside = self._contains(left, right)
            if isinstance(inside, bool):
                return inside == (op == "in")
            return inside if op == "in" else self._negated(inside)
        if op in ("==", "!=") and (is_index_array(left) or is_index_array(right)):
            return self._equal_entries(op, left, right)
        left, right = self._as_size(left), self._as_size(right)
        known = self.compared_integers(op, left, right)
        if known is not None:
            return known
        left, right = self.integers_as_numbers(left), self.integers_as_numbers(right)
        if self.is_array(left) or self.is_array(right):
            return as_truth(
                self.spread((left, right), lambda x, y: self.whole(self._compare(op, x, y)))
            )
        return self._compare_data(op, left, right)

    def _known(self, p: Predicate) -> Condition | bool:
        """Return a constant predicate as a bool, another one as a condition."""
        return p is TRUE if p in (TRUE, FALSE) else Condition(self, p)

    def _compare_affine(self, op: str, a: Affine, b: Affine) -> Predicate:
        """Return the predicate of a comparison of affine expressions."""
        match op:
            case "<" | ">":
                return compare("<", *((a, b) if op == "<" else (b, a)))
            case "<=" | ">=":
                return compare("≤", *((a, b) if op == "<=" else (b, a)))
            case "==":
                return compare("=", a, b)
            case "!=":
                return disj(compare("<", a, b), compare("<", b, a))
        raise self.error(f"`{op}` is not a comparison of indices", "use <, <=, ==, != or in")

    def condition(self, value: Any) -> Predicate:
        """Return a value as a predicate over indices."""
        if isinstance(value, Index):
            value = self._compare("!=", value, 0)
        if isinstance(value, Value) and (p := self.predicate_of(value)) is not None:
            return p
        return super().condition(value)

    def _equal_entries(self, op: str, *sides: Any) -> Value:
        """Return an entrywise `==` or `!=` of arrays of integers: `labels == k`."""
        each = [x.data if is_index_array(x) else self.once(self.whole(x)) for x in sides]
        dims = [x.dims if isinstance(x, Data) else self.dims(x) for x in each]

        def integer(x: Any, at: Sequence[Affine]) -> Any:
            return (
                entry_aligned(x, at) if isinstance(x, Data) else self._as_size(self._aligned(x, at))
            )

        def equal(*at: Affine) -> Value:
            return self.whole(self._compare(op, *(integer(x, at) for x in each)))

        return cast("Value", as_truth(self.build(self.broadcast_dims(dims), equal)))

    def _as_size(self, value: Any) -> Any:
        """Return a number that is an index or a size as such; other values unchanged."""
        if is_numpy_scalar(value):
            return value.item()
        if isinstance(value, Value) and value.data is not None:
            return value
        if isinstance(value, Value):
            root, places = strip_entries(value.term)
            if isinstance(root, Var) and root.name in self.counting:
                value = self.read(Value(self, self.counting[root.name]), *places)
        match value:
            case Value(term=Const(Affine() | int() as a)) if not isinstance(a, bool):
                return Index(self, Affine.of(a))
        return value

    def _compare_data(self, op: str, left: Any, right: Any) -> Any:
        """Return a comparison of data as an indicator, 1 or 0, whose derivative is zero."""
        if op not in _INDICATORS:
            raise self.error(
                f"`{op}` is not a comparison of numbers", "use <, <=, ==, != and the like"
            )
        for side in (left, right):
            if not isinstance(side, Value | Index | int | float | Fraction):
                raise self.error(f"a comparison with {kind(side)}", "compare numbers, or indices")
        name, swapped, negated = _INDICATORS[op]
        a, b = (self.scalar(side, "a comparison") for side in (left, right))
        made = Value(self, Call(find_function(name), (b, a) if swapped else (a, b)))
        return self._negated(made) if negated else as_truth(made)

    def one_integer(self, p: Predicate, then: Any, q: Predicate, otherwise: Any) -> Any:
        """Return an integer that is one of two, by condition; None if they are no integers, or both are constants."""
        if all(isinstance(value, int) for value in (then, otherwise)):
            return None
        first, second = self.cases_of(then), self.cases_of(otherwise)
        if first is None or second is None:
            return None
        cases = [(conj(p, r), a) for r, a in first] + [(conj(q, r), a) for r, a in second]
        return self.piecewise(cases)

    def _contains(self, left: Any, right: Any) -> Condition | bool:
        """Return `left in right`."""
        right = getattr(right, "written", None) or right
        if isinstance(right, dict | tuple | list | set | frozenset):
            if self._are_plain((left, *right)):
                return left in right
            if self._are_plain(tuple(right)) or isinstance(right, tuple | list):
                return reduce(self._either_of, (self._compare("==", left, x) for x in right), False)
        places = left if isinstance(left, tuple) else (left,)
        match right:
            case Value(data=Data(name=name, type=TupleSet(arity))):
                if len(places) != arity:
                    raise self.error(f"`{name}` holds tuples of {arity} integers")
                arguments = tuple(self.affine(a, "a relation") for a in places)
                return Condition(self, Related(name, arguments))
        raise self.error("`in` tests a relation", "pass a set of index tuples: `(i, j) in R`")

    def choose(self, k: int, test: Any, then: Callable[[], Any], other: Callable[[], Any]) -> Any:
        """Return `then() if test else other()`, as `[p]·a + [¬p]·b`; called by rewritten code."""
        self.at(k)
        test = self.as_condition(test)
        if (known := known_truth(test)) is not None:
            return then() if known else other()
        if self._on_data(test):
            p, data = self.parts_of_truth(test)
            if p != TRUE:
                here = Condition(self, p)
                return self.choose(k, here, lambda: self.choose(k, data, then, other), other)
            test = self.once(test, "chosen")
            with self.memory.list_branches() as ways:
                with ways.one(), self.where(lambda: test):
                    first = then()
                with ways.one(), self.where(lambda: self._negated(test)):
                    second = other()
            with self.memory.as_it_was():
                return self.one_of_two(test, first, second)
        p = self.condition(test)
        not_p = self._negation(p)
        branches, values = [], []
        with self.memory.list_branches() as ways:
            for condition, branch in ((p, then), (not_p, other)):
                with ways.one(), self.scope(condition=condition) as scope:
                    values.append(branch())
                    term, layout = self.pack(values[-1])
                branches.append((condition, lets(scope.bindings, term), layout))
        self.at(k)
        integer = self.one_integer(p, values[0], not_p, values[1])
        if integer is not None:
            return integer
        return self._choose_by_predicate(branches).of_nature(self.nature_of_one(*values))

    def one_of_two(self, test: Value, then: Any, otherwise: Any) -> Any:
        """Return `then` if a condition on data holds, else `otherwise`; of containers, part by part."""
        then, otherwise = self._structure(then), self._structure(otherwise)
        if isinstance(then, dict) and isinstance(otherwise, dict) and [*then] == [*otherwise]:
            return {x: self.one_of_two(test, then[x], otherwise[x]) for x in then}
        if isinstance(then, tuple) and isinstance(otherwise, tuple) and len(then) == len(otherwise):
            parts = [self.one_of_two(test, a, b) for a, b in zip(then, otherwise, strict=True)]
            return then.with_parts(parts) if isinstance(then, Laid) else tuple(parts)
        return self.chosen(test, then, otherwise).of_nature(self.nature_of_one(then, otherwise))

    def nature_of_one(self, then: Any, otherwise: Any) -> Nature:
        """Return what is known of a value that is one of two."""
        lists = lists_of(then) if lists_of(then) == lists_of(otherwise) else 0
        return replace(
            nature_of([then, otherwise]), lists=lists, shares=self._shared_by(then, otherwise)
        )

    def _shared_by(self, then: Any, otherwise: Any) -> Shares:
        """Return with what a value may share entries that is one of two."""
        return self.memory.now(then) | self.memory.now(otherwise)

    def chosen(self, test: Any, then: Any, other: Any) -> Value:
        """Return NumPy's `where`, entry by entry: `[p]·a + [¬p]·b` if indices decide, `kept(c, a) + dropped(c, b)` if data do."""
        made = self.spread((test, then, other), self._choose_scalar)
        numbers = nature_of([then, other])
        if numbers.numbers == "int":
            made.of_nature(replace(made.nature, numbers="int", within=numbers.within))
        return made

    def _choose_scalar(self, test: Value, then: Value, other: Value) -> Value:
        """Return `where` of scalars."""
        p = self.predicate_of(test)
        if p is not None:
            q = self._negation(p)
            if other.term is Const(0):
                return self.conditioned(p, then)
            if then.term is Const(0):
                return self.conditioned(q, other)
            return Value(self, Add(guarded(p, then.term), guarded(q, other.term)))
        if other.term is Const(0):
            return Value(self, Call(find_function("kept"), (test.term, then.term)))
        if then.term is not Const(0):
            test = self.once(test, "chosen")
            kept = Value(self, Call(find_function("kept"), (test.term, then.term)))
            dropped = Value(self, Call(find_function("dropped"), (test.term, other.term)))
            return Value(self, Add(kept.term, dropped.term))
        return Value(self, Call(find_function("dropped"), (test.term, other.term)))

    def _choose_by_predicate(self, branches: list[tuple[Predicate, Term, Layout]]) -> Value:
        """Return the value of two branches under exclusive predicates. Raises TensorError if their types differ."""
        (p, a, layout), (q, b, other) = branches
        if b is Const(0):
            return Value(self, guarded(p, a), layout)
        if a is Const(0):
            return Value(self, guarded(q, b), other)
        if a.type != b.type:
            raise self.error(
                f"one branch is {describe(a.type, self.spelt)}, the other {describe(b.type, self.spelt)}",
                "give both the same shape",
            )
        if a.type == REAL:
            return Value(self, Add(guarded(p, a), guarded(q, b)), layout)
        first = self._bind("then", Value(self, Guard(p, a))).term
        second = self._bind("other", Value(self, Guard(q, b))).term
        return Value(self, self._entrywise(first, second, p, q), layout)

    def _entrywise(self, a: Term, b: Term, p: Predicate, q: Predicate) -> Term:
        """Return `[p]·a + [q]·b` of terms of one type, entry by entry and part by part."""
        match a.type:
            case Array(size, _):
                i = self.name("i")
                at = Affine.of(i)
                return Gen(i, size, self._entrywise(At(a, at), At(b, at), p, q))
            case Product():
                return Pair(
                    self._entrywise(Proj(0, a), Proj(0, b), p, q),
                    self._entrywise(Proj(1, a), Proj(1, b), p, q),
                )
        return Add(Guard(p, a), Guard(q, b))


def known_truth(value: Any) -> bool | None:
    """Return Python's truth value of a constant; None for an array, an index or a condition."""
    if value is None or isinstance(value, bool | int | float | str | tuple | list | dict):
        return bool(value)
    return None


TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
# How a comparison of data is spelt: an indicator, whether its sides change places, whether it is negated.
_INDICATORS = {
    "<": ("less", False, False),
    ">": ("less", True, False),
    "<=": ("less_equal", False, False),
    ">=": ("less_equal", True, False),
    "==": ("equal", False, False),
    "!=": ("equal", False, True),
}
