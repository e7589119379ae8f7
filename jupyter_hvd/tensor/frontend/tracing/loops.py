"""Loops: comprehensions, sums, `any` and `all` over `range`."""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any, TypeVar

from ...language.affine import Affine
from ...language.predicates import TRUE, Predicate, compare, conj, disj, exists
from ...language.terms import Gen, Sum, guard, lets
from ..tracers import Condition, Index, Value
from .conditions import Conditions, guarded

T = TypeVar("T")


class Loops(Conditions):
    """`⊞`, `Σ` and `∃` from Python's loops."""

    def range(self, k: int, function: Any, *bounds: Any) -> tuple[Any, ...]:
        """The integers that a `range` is called with."""
        return self.builtin(k, "range", function, bounds)

    def builtin(self, k: int, name: str, function: Any, value: T) -> T:
        """What a call of a built-in function gives, where its name still means that function."""
        self.at(k)
        if function is not getattr(builtins, name):
            other = getattr(function, "__name__", repr(function))
            raise self.error(
                f"`{name}` is `{other}` here, not Python's own", "give that another name"
            )
        return value

    def _range(self, bounds: tuple[Any, ...]) -> tuple[Affine, Affine, int]:
        """`range(…)` as its start, its length and its step."""
        if not 1 <= len(bounds) <= 3:
            raise self.error("`range` takes one to three integers")
        ends = [self.affine(bound, "`range`") for bound in bounds[:2]]
        start, stop = (Affine.of(0), ends[0]) if len(ends) == 1 else ends
        step = self.affine(bounds[2], "a step") if len(bounds) == 3 else Affine.of(1)
        if not step.is_constant or step.constant < 1:
            raise self.error("a step is a positive constant")
        length, k = stop - start, step.constant
        if k > 1:
            rounded = length + (k - 1)
            if any(c % k for _, c in rounded.terms):
                raise self.error(
                    "this range's length is not affine in the sizes",
                    "loop with step 1 and a condition, or pass the length as an int parameter",
                )
            terms = tuple((name, c // k) for name, c in rounded.terms)
            length = Affine(terms, rounded.constant // k)
        return start, length, k

    def _binder(
        self, name: str, bounds: tuple[Any, ...], ragged: bool
    ) -> tuple[str, Affine, Affine, Predicate]:
        """A fresh index, its size, what the Python variable means, and the guard that a size
        which depends on outer indices takes.
        """
        start, length, step = self._range(bounds)
        index = self.name(name)
        meaning = start + Affine.of(index) * step
        outer = dict(self.binders)
        widest = length
        for i in length.names & outer.keys():
            end = outer[i] - 1 if length.coefficient(i) > 0 else Affine.of(0)
            widest = widest.substitute({i: end})
        if widest == length:
            return index, length, meaning, TRUE
        if not ragged:
            raise self.error(
                "this array's size depends on an outer index",
                "make it as wide as the widest, and zero the rest: `[e if j < i else 0 for j in range(n)]`",
            )
        if widest.names & outer.keys():
            raise self.error("this range depends on indices in a way that has no simple bound")
        return index, widest, meaning, compare("<", index, length)

    def generate(
        self, k: int, name: str, bounds: tuple[Any, ...], body: Callable[[Any], Any]
    ) -> Value:
        self.at(k)
        index, size, meaning, _ = self._binder(name, bounds, ragged=False)
        with self.scope((index, size)) as scope:
            term, layout = self.pack(body(Index(self, meaning)))
        self.at(k)
        return Value(self, Gen(index, size, lets(scope.bindings, term)), layout)

    def sum(self, k: int, name: str, bounds: tuple[Any, ...], body: Callable[[Any], Any]) -> Value:
        self.at(k)
        index, size, meaning, within = self._binder(name, bounds, ragged=True)
        with self.scope((index, size), within) as scope:
            term = self.scalar(body(Index(self, meaning)), "a sum")
        self.at(k)
        return Value(self, Sum(index, size, guard(within, lets(scope.bindings, term))))

    def given(self, k: int, condition: Any, body: Callable[[], Any]) -> Value:
        """A comprehension's `if` in a sum."""
        self.at(k)
        p = self.condition(condition)
        with self.scope(condition=p) as scope:
            term = self.scalar(body(), "a sum")
        return Value(self, guarded(p, lets(scope.bindings, term)))

    def any(
        self, k: int, name: str, bounds: tuple[Any, ...], body: Callable[[Any], Any]
    ) -> Condition:
        self.at(k)
        index, size, meaning, within = self._binder(name, bounds, ragged=True)
        with self.scope((index, size), within):
            p = self.condition(body(Index(self, meaning)))
        return Condition(self, exists(index, size, conj(within, p)))

    def given_any(self, k: int, condition: Any, body: Callable[[], Any]) -> Condition:
        self.at(k)
        return Condition(self, conj(self.condition(condition), self.condition(body())))

    def all(
        self, k: int, name: str, bounds: tuple[Any, ...], body: Callable[[Any], Any]
    ) -> Condition:
        """`∀` is `¬∃¬`."""
        none = self.any(k, name, bounds, lambda i: self.negated(k, body(i)))
        return self.negated(k, none)

    def given_all(self, k: int, condition: Any, body: Callable[[], Any]) -> Condition:
        self.at(k)
        return Condition(self, disj(self.negated(k, condition).predicate, self.condition(body())))
