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
        """Return the present state, for `back_to`."""
        return dict(self.changes), dict(self._shares)

    def back_to(self, before: tuple[dict[str, int], dict[str, Shares]]) -> None:
        """Restore a state that `so_far` returned."""
        self.changes, self._shares = before

    def name(self, variable: str, shares: Shares) -> None:
        """Record which arrays a variable shares entries with."""
        self._shares[variable] = shares

    def of_variable(self, name: str) -> Shares:
        """Return what a variable's array shares entries with; if nothing is recorded, only itself."""
        return self._shares.get(name, frozenset({(name, 0)}))

    def of(self, value: object) -> Shares:
        """Return the arrays that a value shares entries with, each with the number of its last change then; () for numbers,
        which are copied.
        """
        if not isinstance(value, Value) or value.type == REAL:
            return frozenset()
        name = value.data.name if value.data is not None else value.variable
        return self.of_variable(name) if name else value.nature.shares

    def now(self, value: object) -> Shares:
        """Return the arrays that a value shares entries with, each with the number of its last change now."""
        return frozenset((array, self.changes.get(array, 0)) for array in arrays(self.of(value)))

    def outdated(self, value: Value) -> str | None:
        """Return an array that a value shares entries with and that has been changed since; None if there is none."""
        if not self._checked:
            return None
        return next((a for a, at in self.of(value) if self.changes.get(a, 0) != at), None)

    def change(self, value: object) -> Shares:
        """Record that an array is changed in place, and return what it shares from now on."""
        self.changes.update(dict.fromkeys(arrays(self.of(value)), next(self._numbers)))
        return self.now(value)

    def change_parts(self, container: object) -> None:
        """Record that a dictionary or list gets another part, so that reads under other names can be refused."""
        self._containers[id(container)] = container  # kept, for its number to stay its own
        self.changes[f"parts {id(container)}"] = next(self._numbers)

    def has_changed(self, container: object) -> bool:
        """Whether a dictionary or list has got another part."""
        return self._checked and f"parts {id(container)}" in self.changes

    @contextmanager
    def list_branches(self) -> Iterator[Branches]:
        """Trace several branches of which a program takes one; afterwards, everything that any branch changed counts as
        changed.
        """
        made = Branches(self)
        yield made
        different = {a for one in made.ends for a in one if one[a] != made.start.get(a)}
        self.changes = {**made.start, **dict.fromkeys(different, next(self._numbers))}

    @contextmanager
    def as_it_was(self) -> Iterator[None]:
        """Allow reads of values of several branches, each as it is at the end of its branch."""
        self._checked, before = False, self._checked
        try:
            yield
        finally:
            self._checked = before


class Branches:
    """The branches that a program may take, and the changes at the end of each."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self.start = dict(memory.changes)
        self.ends: list[dict[str, int]] = []

    @contextmanager
    def one(self) -> Iterator[None]:
        """Trace one branch, from the state before all of them."""
        self.memory.changes = dict(self.start)
        yield
        self.ends.append(self.memory.changes)
        self.memory.changes = dict(self.start)


def arrays(shares: Iterable[tuple[str, int]]) -> frozenset[str]:
    """Return the names of the arrays, without the numbers of their changes."""
    return frozenset(array for array, _ in shares)
