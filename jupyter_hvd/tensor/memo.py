"""Caches results for as long as the object that they were computed from lives."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Concatenate, Generic, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

T = TypeVar("T")
K = ParamSpec("K")
R = TypeVar("R")


class Memo(Generic[T, K, R]):
    """Calls `make(of, *key)` once for each object and key, and stores the result while the object lives.

    The result must not refer to the object, which would then never be freed.
    """

    def __init__(self, make: Callable[Concatenate[T, K], R]) -> None:
        self.make = make
        self.made: WeakKeyDictionary[T, dict[Hashable, R]] = WeakKeyDictionary()

    def __call__(self, subject: T, *args: K.args, **kwargs: K.kwargs) -> R:
        made = self.made.setdefault(subject, {})
        key = args, tuple(sorted(kwargs.items()))
        if key not in made:
            made[key] = self.make(subject, *args, **kwargs)
        return made[key]

    def count(self, subject: T) -> int:
        """Return the number of results stored for an object."""
        return len(self.made.get(subject, ()))
