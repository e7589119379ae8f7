"""Which arrays share their entries. A program of the language has no memory: `y[i] = e` is a new array
by the old name. In NumPy every other name of the old array, and every view of it, changes with it, so
these may not be read afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count

from ...language.types import REAL
from ..tracers import Shares, Value


class Memory:
    """The state of every array that has been changed in place: of each the number of its last change."""

    def __init__(self) -> None:
        self.changes: dict[str, int] = {}
        self._shares: dict[str, Shares] = {}
        self._containers: dict[int, object] = {}
        self._numbers = count(1)
        self._checked = True

    def so_far(self) -> tuple[dict[str, int], dict[str, Shares]]:
        """What is known, to go back to."""
        return dict(self.changes), dict(self._shares)

    def back_to(self, before: tuple[dict[str, int], dict[str, Shares]]) -> None:
        """As it was."""
        self.changes, self._shares = before

    def name(self, variable: str, shares: Shares) -> None:
        """A variable is an array that shares entries, or has those of its own."""
        self._shares[variable] = shares

    def of_variable(self, name: str) -> Shares:
        """What a variable's array shares: where nothing is known, it is an array of its own."""
        return self._shares.get(name, frozenset({(name, 0)}))

    def of(self, value: object) -> Shares:
        """The arrays, as they were at some change, that a value shares entries with. Numbers are copied."""
        if not isinstance(value, Value) or value.type == REAL:
            return frozenset()
        name = value.data.name if value.data is not None else value.variable
        return self.of_variable(name) if name else value.nature.shares

    def now(self, value: object) -> Shares:
        """As `of`, as these arrays are now."""
        return frozenset((array, self.changes.get(array, 0)) for array in arrays(self.of(value)))

    def outdated(self, value: Value) -> str | None:
        """An array that a value shares entries with, and that has been changed since."""
        if not self._checked:
            return None
        return next((a for a, at in self.of(value) if self.changes.get(a, 0) != at), None)

    def change(self, value: object) -> Shares:
        """An array is changed in place: what it shares from then on."""
        self.changes.update(dict.fromkeys(arrays(self.of(value)), next(self._numbers)))
        return self.now(value)

    def change_parts(self, container: object) -> None:
        """A dictionary or list gets another part; whoever reads it by another name is to know."""
        self._containers[id(container)] = container  # kept, for its number to stay its own
        self.changes[f"parts {id(container)}"] = next(self._numbers)

    def has_changed(self, container: object) -> bool:
        """Whether a dictionary or list has got another part."""
        return self._checked and f"parts {id(container)}" in self.changes

    @contextmanager
    def branches(self) -> Iterator[Branches]:
        """Ways of which a program goes one; afterwards what any has changed is changed."""
        made = Branches(self)
        yield made
        different = {a for one in made.ends for a in one if one[a] != made.start.get(a)}
        self.changes = {**made.start, **dict.fromkeys(different, next(self._numbers))}

    @contextmanager
    def as_it_was(self) -> Iterator[None]:
        """Values of several ways are read, each as it is at the way's end."""
        self._checked, before = False, self._checked
        try:
            yield
        finally:
            self._checked = before


class Branches:
    """The ways that a program may go, and the changes at the end of each."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.start = dict(memory.changes)
        self.ends: list[dict[str, int]] = []

    @contextmanager
    def one(self) -> Iterator[None]:
        """One way, which knows nothing of the others."""
        self.memory.changes = dict(self.start)
        yield
        self.ends.append(self.memory.changes)
        self.memory.changes = dict(self.start)


def arrays(shares: Iterable[tuple[str, int]]) -> frozenset[str]:
    """The arrays, whatever their state."""
    return frozenset(array for array, _ in shares)
