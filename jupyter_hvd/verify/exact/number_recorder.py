"""Records the numbers that meet in a running program, with the number of events that were observed before."""

from __future__ import annotations

import ast
import threading
from array import array
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .lines import format_user_line
from .number_sites import LENGTH, NUMBER, NumberSite, instrument

#: So many entries are stored for each operand: of a loop that runs longer, the first steps tell the unit.
MOST_ENTRIES = 2**13
#: And so many values are looked at for each entry: a loop between two steps does not become slow.
MOST_VALUES = 2**10
#: Sequences whose length is recorded.
SEQUENCES = frozenset({list, tuple, deque, range, np.ndarray})
#: A container of more numbers than this is no list of steps that somebody wrote.
MOST_MEMBERS = 64
Reader = Callable[[Any], Any]


@dataclass(frozen=True)
class NumberSeries:
    """The values of an operand.

    Attributes:
        positions: the number of events of the record before each entry, increasing.
        lows, highs: the smallest and largest value there.
    """

    positions: NDArray[np.int64]
    lows: NDArray[np.float64]
    highs: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.positions)


class _Entries:
    """The entries of an operand while the program runs.

    Attributes:
        position, low, high, count: of the last entry; count is the number of values there.
    """

    __slots__ = ("count", "high", "highs", "low", "lows", "position", "positions")

    def __init__(self) -> None:
        self.positions, self.lows, self.highs = array("q"), array("d"), array("d")
        self.position, self.count, self.low, self.high = -1, 0, 0.0, 0.0

    def store_last(self) -> None:
        if self.position >= 0 and len(self.positions) < MOST_ENTRIES:
            self.positions.append(self.position)
            self.lows.append(self.low)
            self.highs.append(self.high)


class NumberRecorder:
    """Records the operands of the number sites of one program, in the thread that began it."""

    def __init__(self) -> None:
        self.begin_program([])

    def begin_program(self, events: Sequence[Any]) -> None:
        """Forget all numbers; positions are from now on the number of these events."""
        self._events = events
        self._sites: list[NumberSite] = []
        self._entries: list[_Entries] = []
        self._thread = threading.get_ident()

    def instrument(self, tree: ast.Module, file: str) -> ast.Module:
        """Edit a program's text, or a cell's, so that its numbers are recorded."""
        before = len(self._sites)
        edited = instrument(
            tree, self._sites, len(self._entries), lambda line: format_user_line(file, line)
        )
        count = sum(len(site.operands) for site in self._sites[before:])
        self._entries += [_Entries() for _ in range(count)]
        return edited

    def add(self, operand: int, value: float) -> None:
        """Add a value of an operand."""
        entries = self._entries[operand]
        position = len(self._events)
        if entries.position == position:
            if entries.count >= MOST_VALUES:
                return
            if threading.get_ident() != self._thread:
                return
            entries.count += 1
            if value < entries.low:
                entries.low = value
            elif value > entries.high:
                entries.high = value
        elif threading.get_ident() == self._thread:
            entries.store_last()
            entries.position, entries.count = position, 1
            entries.low = entries.high = float(value)

    def sites(self) -> tuple[NumberSite, ...]:
        return tuple(self._sites)

    def series(self) -> tuple[NumberSeries, ...]:
        """Return the values of all operands, in the order of the sites; the record is complete then."""
        for entries in self._entries:
            entries.store_last()
            entries.position = -1
        return tuple(
            NumberSeries(
                np.array(entries.positions, np.int64),
                np.array(entries.lows, np.float64),
                np.array(entries.highs, np.float64),
            )
            for entries in self._entries
        )


#: Of this process: a program may send its functions to other processes, where nothing is recorded.
recorder = NumberRecorder()


def record_number(operand: int, value: Any) -> Any:
    """Record a number, or the numbers of a container, and return it."""
    kind = type(value)
    if kind is int or kind is float:
        with suppress(IndexError, OverflowError):
            recorder.add(operand, value)
        return value
    read = _readers[kind] if kind in _readers else _readers.setdefault(kind, find_reader(kind))
    if read is not None:
        with suppress(Exception):  # symbolic or deleted, or this is another process
            for number in read(value):
                recorder.add(operand, number)
    return value


def record_length(operand: int, value: Any) -> Any:
    """Record the length of a list or of an array, and return it."""
    if type(value) in SEQUENCES:
        with suppress(IndexError, TypeError):
            recorder.add(operand, len(value))
    return value


#: The functions by which the edited text of a program records its numbers.
GLOBALS: dict[str, Any] = {NUMBER: record_number, LENGTH: record_length}
_readers: dict[type, Reader | None] = {}


def find_reader(kind: type) -> Reader | None:
    """Return the function that lists the numbers in a value of a type; None for types that hold none."""
    if issubclass(kind, bool | np.bool_ | str | bytes | dict):
        return None
    if issubclass(kind, int | float | np.integer | np.floating):
        return lambda value: (float(value),)
    if issubclass(kind, tuple | list | set | frozenset):
        return read_members
    if issubclass(kind, np.ndarray) or (hasattr(kind, "numpy") and hasattr(kind, "shape")):
        return read_scalar
    return None


def read_members(values: Any) -> Sequence[float]:
    """Return the smallest and largest number of a small container of numbers only."""
    if len(values) > MOST_MEMBERS or any(type(value) not in (int, float) for value in values):
        return ()
    return (min(values), max(values)) if values else ()


def read_scalar(value: Any) -> Sequence[float]:
    """Return the number that an array or tensor without axes holds."""
    if len(value.shape):
        return ()
    number = value if isinstance(value, np.ndarray) else np.asarray(value.numpy())
    return (float(number),) if number.dtype.kind in "iuf" else ()
