"""Decides from the ranks' own reports whether they make progress. It reads no clock: times are arguments."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

#: After how many seconds in one place, without computing, a rank is said to wait.
STALL_SECONDS = 5.0
#: Seconds between two looks at a rank in one place below which its computing time, in ticks of 10 ms, says nothing.
SHORTEST = 0.3
#: How much of the time a rank may compute that is said to wait, Horovod's own threads not counted.
IDLE_SHARE = 0.25


@dataclass(frozen=True)
class Position:
    """Where a rank is: file and line of the user's code, and the file of the innermost Python frame.

    Attributes: the others as in `current_location`.
    """

    cell: tuple[str, int] | None
    inside: str
    collective: str = ""
    doing: str = field(default="", compare=False)
    handling: str = field(default="", compare=False)
    at_breakpoint: bool = field(default=False, compare=False)

    @property
    def in_horovod(self) -> bool:
        """Whether the rank is inside a file of Horovod."""
        return "/horovod/" in self.inside

    @property
    def in_tensorflow(self) -> bool:
        """Whether the rank is inside a file of TensorFlow."""
        return "/tensorflow/" in self.inside

    @property
    def awaits_work(self) -> bool:
        """Whether this is a notebook's rank that waits for the next request."""
        return self.cell is None and self.inside.endswith("/ranks/notebook_rank.py")


def position_of(report: Mapping[str, Any]) -> Position:
    """Return the position in a rank's report; see `current_location`."""
    return Position(
        tuple(report["cell"]) if report["cell"] else None,
        report["inside"],
        report.get("collective", ""),
        report.get("doing", ""),
        report.get("handling", ""),
        bool(report.get("at_breakpoint")),
    )


@dataclass(frozen=True)
class Stall:
    """Some ranks wait in one place and compute nothing; where all are that have not finished.

    A rank that is silent, because its process is stopped or holds Python's lock, is in no place.

    Attributes:
        since: for how many seconds those that wait have done so. finished: ranks that have come to their end.
    """

    waiting: tuple[int, ...]
    places: Mapping[int, Position]
    since: Mapping[int, float] = field(default_factory=dict)
    finished: tuple[int, ...] = ()

    @property
    def debugged(self) -> int | None:
        """The rank that stands at a breakpoint, for which the others wait; None if none does."""
        return next((rank for rank, place in self.places.items() if place.at_breakpoint), None)


class Progress:
    """The reported positions of some ranks."""

    def __init__(self, ranks: Collection[int], now: float) -> None:
        self.seen: dict[int, tuple[Position, float, float]] = {}
        self._queued: dict[int, float] = {}
        self._heard = dict.fromkeys(ranks, now)
        self._idle_since: dict[int, float] = {}

    def add_rank(self, rank: int, now: float) -> None:
        """Start to watch a rank that has not reported yet; ignored for a known rank."""
        self._heard.setdefault(rank, now)

    def note_position(self, rank: int, report: Mapping[str, Any], now: float) -> None:
        """Record a rank's report of its position and of its CPU seconds."""
        place = position_of(report)
        cpu, clock = float(report["cpu"]), float(report["time"])
        queued = float(report.get("queued", 0.0))
        if rank in self.seen:
            before, cpu_before, then = self.seen[rank]
            if clock == then:
                return
            if place == before and clock - then < SHORTEST:
                self._heard[rank] = now
                return
            if place != before or cpu - cpu_before > IDLE_SHARE * (clock - then):
                self._idle_since.pop(rank, None)
            else:
                # While it waits for a processor it is not idle: what it waits for may be there.
                starved = min(clock - then, queued - self._queued[rank])
                self._idle_since[rank] = self._idle_since.get(rank, then) + starved
        self._queued[rank] = queued
        self.seen[rank], self._heard[rank] = (place, cpu, clock), now

    def idle_seconds(self, rank: int) -> float:
        """Return for how many seconds of its own clock a rank has stayed at one position without computing.

        Time in which it waited for a processor does not count.
        """
        if rank not in self._idle_since:
            return 0.0
        return self.seen[rank][2] - self._idle_since[rank]

    def is_silent(self, rank: int, now: float, seconds: float = STALL_SECONDS) -> bool:
        """Whether the last report of a rank is more than `seconds` old."""
        return now - self._heard[rank] > seconds

    def find_stall(
        self,
        ranks: Collection[int],
        now: float,
        finished: Collection[int] = (),
        seconds: float = STALL_SECONDS,
    ) -> Stall | None:
        """Return the positions of all ranks if one has waited for `seconds`; else None.

        Ranks that have been silent for `STALL_SECONDS` then count as waiting, too.

        Args:
            ranks: those that have not finished.
        """
        if not any(
            self.is_silent(r, now, seconds) or self.idle_seconds(r) >= seconds - 1 for r in ranks
        ):
            return None
        silent = {r for r in ranks if self.is_silent(r, now, min(seconds, STALL_SECONDS))}
        waiting = silent | {r for r in ranks if self.idle_seconds(r) >= seconds - 1}
        places = {r: self.seen[r][0] for r in ranks if r in self.seen and r not in silent}
        since = {r: now - self._heard[r] if r in silent else self.idle_seconds(r) for r in waiting}
        return Stall(tuple(sorted(waiting)), places, since, tuple(sorted(finished)))
