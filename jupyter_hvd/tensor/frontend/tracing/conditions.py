"""Conditions: comparisons, their combinations, and choices between values."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

from ...language.affine import Affine
from ...language.predicates import FALSE, TRUE, Predicate, Related, compare, conj, disj, negate
from ...language.terms import Add, At, Const, Gen, Guard, Pair, Proj, Term, guard, lets
from ...language.types import REAL, Array, Layout, Product, TupleSet
from ...polyhedral import sets
from ..tracers import Condition, Data, IndexEntry, Value, describe, kind
from .packing import Packing


class Conditions(Packing):
    """`p and q`, `i < j`, `(i, j) in R`, `a if p else b`."""

    def both(self, k: int, left: Any, right: Any) -> Any:
        self.at(k)
        return Condition(self, conj(self.condition(left), self.condition(right)))

    def either(self, k: int, left: Any, right: Any) -> Any:
        self.at(k)
        return Condition(self, disj(self.condition(left), self.condition(right)))

    def negated(self, k: int, value: Any) -> Condition:
        self.at(k)
        return Condition(self, self._negation(self.condition(value)))

    def _negation(self, p: Predicate) -> Predicate:
        negation = negate(p)
        if negation is None:
            negation = sets.complement(p, tuple(self.binders))
        if negation is None:
            raise self.error(
                "this condition has no negation: it searches a relation",
                "pass the negated condition as a boolean array",
            )
        return negation

    def compare(self, k: int, ops: tuple[str, ...], *sides: Any) -> Any:
        self.at(k)
        results = [
            self._compare(op, left, right)
            for op, (left, right) in zip(ops, pairwise(sides), strict=True)
        ]
        if all(isinstance(result, bool) for result in results):
            return all(results)
        return Condition(self, conj(*map(self.condition, results)))

    def _compare(self, op: str, left: Any, right: Any) -> Any:
        if op in ("in", "not in"):
            inside = self._contains(left, right)
            return inside if op == "in" else Condition(self, self._negation(inside.predicate))
        if op in ("==", "!=") and (isinstance(left, IndexEntry) or isinstance(right, IndexEntry)):
            entry, other = (left, right) if isinstance(left, IndexEntry) else (right, left)
            assert isinstance(entry, IndexEntry)
            p = entry.equals(self.affine(other, "a comparison with an index array's entry"))
            return Condition(self, p if op == "==" else self._negation(p))
        for side in (left, right):
            if isinstance(side, Value | float):
                raise self.error(
                    f"a comparison of data, {kind(side)}",
                    "compare indices; for data use `np.maximum`, `np.minimum`, or a boolean array",
                )
        a, b = (self.affine(side, "a comparison") for side in (left, right))
        match op:
            case "<" | ">":
                p = compare("<", *((a, b) if op == "<" else (b, a)))
            case "<=" | ">=":
                p = compare("≤", *((a, b) if op == "<=" else (b, a)))
            case "==":
                p = compare("=", a, b)
            case "!=":
                p = disj(compare("<", a, b), compare("<", b, a))
            case _:
                raise self.error(f"`{op}` is no comparison of indices", "use <, <=, ==, != or in")
        return p is TRUE if p in (TRUE, FALSE) else Condition(self, p)

    def _contains(self, left: Any, right: Any) -> Condition:
        if not isinstance(right, Data) or not isinstance(right.type, TupleSet):
            raise self.error("`in` tests a relation", "pass a set of index tuples: `(i, j) in R`")
        places = left if isinstance(left, tuple) else (left,)
        if len(places) != right.type.arity:
            raise self.error(f"`{right.name}` holds tuples of {right.type.arity} integers")
        arguments = tuple(self.affine(a, "a relation") for a in places)
        return Condition(self, Related(right.name, arguments))

    def choose(self, k: int, test: Any, then: Callable[[], Any], other: Callable[[], Any]) -> Any:
        """`a if p else b` is `[p]·a + [¬p]·b`."""
        self.at(k)
        if isinstance(test, bool):
            return then() if test else other()
        p = self.condition(test)
        not_p = self._negation(p)
        branches = []
        for condition, branch in ((p, then), (not_p, other)):
            with self.scope(condition=condition) as scope:
                term, layout = self.pack(branch())
            branches.append((condition, lets(scope.bindings, term), layout))
        self.at(k)
        return self._either(branches)

    def _either(self, branches: list[tuple[Predicate, Term, Layout]]) -> Value:
        (p, a, layout), (q, b, other) = branches
        if b is Const(0):
            return Value(self, guarded(p, a), layout)
        if a is Const(0):
            return Value(self, guarded(q, b), other)
        if a.type != b.type:
            raise self.error(
                f"one branch is {describe(a.type)}, the other {describe(b.type)}",
                "give both the same shape",
            )
        if a.type == REAL:
            return Value(self, Add(guarded(p, a), guarded(q, b)))
        first = self._bind("then", Value(self, Guard(p, a))).term
        second = self._bind("other", Value(self, Guard(q, b))).term
        return Value(self, self._entrywise(first, second, p, q), layout)

    def _entrywise(self, a: Term, b: Term, p: Predicate, q: Predicate) -> Term:
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


def guarded(p: Predicate, e: Term) -> Term:
    """`[p]·e`, its condition joined with one that `e` begins with."""
    if isinstance(e, Guard):
        return Guard(conj(p, e.condition), e.body)
    return guard(p, e)
