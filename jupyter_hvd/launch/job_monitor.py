"""Asks the ranks of a batch job every second where they are, and reports when they make no progress."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from .base import status_file
from .diagnosis import ranks_in_collectives
from .heartbeat import HeartbeatServer
from .progress import Progress, Stall

#: Seconds for which a rank waits for another before it is told, and for which all ranks sleep or wait for files.
WAITS, SLEEPS = 10.0, 30.0
#: Seconds between two reports.
PAUSE = 60.0
#: Seconds between two questions.
PERIOD = 1.0

#: Is told of a stall, and of the ranks' hosts.
StallListener = Callable[[Stall, Mapping[int, str]], None]


@contextmanager
def watch_ranks(
    heartbeats: HeartbeatServer, size: int, status: Path, tell: StallListener
) -> Iterator[None]:
    """Watch the ranks in a thread for a block, and report stalls.

    Args:
        status: the folder of the ranks' status files.
        tell: called with each stall and the ranks' hosts.
    """
    over, monitor = threading.Event(), JobMonitor(size, status, tell, time.monotonic())

    def watch_loop() -> None:
        while not over.wait(PERIOD):
            monitor.check_ranks(heartbeats, time.monotonic())

    watching = threading.Thread(target=watch_loop, name="hvd-monitor", daemon=True)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join(2)


class JobMonitor:
    """Monitors the ranks of a job: their last positions, and the stalls that were reported."""

    def __init__(self, size: int, status: Path, tell: StallListener, now: float) -> None:
        self._size, self._status, self._tell = size, status, tell
        self._progress = Progress((), now)
        self._asked: dict[int, int] = {}
        self._reported: Stall | None = None
        self._reported_at = now

    def check_ranks(self, heartbeats: HeartbeatServer, now: float) -> None:
        """Record where the ranks are, ask them again, and report a stall."""
        present = {r: m for r in range(self._size) if (m := heartbeats.members.get(f"rank {r}"))}
        # Python destroys what the program leaves when no thread answers any more; that may take long.
        members = {r: m for r, m in present.items() if not status_file(self._status, r).exists()}
        asked = self._asked
        for rank, member in members.items():
            self._progress.add_rank(rank, now)
            if "place" in member.description:
                self._progress.note_position(rank, member.description["place"], now)
            if rank not in asked or asked[rank] == member.description.get("place", {}).get("call"):
                # One question at a time: a rank that is suspended for hours does not answer, and reads none either.
                asked[rank] = asked.get(rank, 0) + 1
                heartbeats.send(f"rank {rank}", {"where": asked[rank]})
        if len(members) == 1 and self._size == 1:
            return  # nobody to wait for
        gone = {r: m for r in range(self._size) if (m := heartbeats.gone.get(f"rank {r}"))}
        finished = [r for r, member in gone.items() if not member.cut_off]
        finished += present.keys() - members.keys()
        stall = self._progress.find_stall(list(members), now, finished, WAITS)
        if stall is None or not is_hang(stall):
            return
        if self._reported is not None and not is_due(
            self._reported, stall, now - self._reported_at
        ):
            return
        self._reported, self._reported_at = stall, now
        hosts = {r: str(m.description.get("host", "")) for r, m in present.items()}
        self._tell(stall, hosts)


def is_due(before: Stall, stall: Stall, seconds: float) -> bool:
    """Whether a stall is reported, some seconds after another one.

    The same one is not. A different one is after `PAUSE` seconds; at once, if the waiting ranks still wait and another
    has joined them, because the first report says that this rank may still arrive.
    """
    if before.places == stall.places and set(before.waiting) == set(stall.waiting):
        return False
    remain = all(stall.places.get(r) == before.places.get(r) for r in before.waiting)
    return seconds >= PAUSE or (remain and set(before.waiting) < set(stall.waiting))


def is_hang(stall: Stall) -> bool:
    """Whether a rank waits for another one, or all have waited for long.

    Ranks that join Horovod wait for those that still import TensorFlow; that is no hang. Nor is it one while a rank stands at
    a breakpoint.
    """
    if stall.debugged is not None:
        return False
    together = [
        r for r in ranks_in_collectives(stall) if "/basics.py" not in stall.places[r].inside
    ]
    silent = [
        r for r in stall.waiting if r not in stall.places and stall.since.get(r, 0.0) >= WAITS
    ]
    all_wait = set(stall.places) <= set(stall.waiting)
    return bool(together or silent) or (
        all_wait and min(stall.since.values(), default=0.0) >= SLEEPS
    )
