"""Restarts a job after a fault: on the same ranks or, if it is elastic, on those that remain and those that join.

The starts share a folder, in which `fit` keeps what it goes on from (`runtime/sharing/resumed_fits.py`); everything else is
computed again. All ranks start again, although some are left: whatever Horovod, NCCL or a half-finished
collective has left behind in a process goes with it. Batches and rates stay those of the ranks with which the job began. It
costs the seconds of a start.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from .addresses import own_address
from .allocation import current_allocation
from .hosts import Host, LaunchError, hosts_for, hosts_of_ranks, is_local, parse_hosts
from .job import TIMED_OUT, JobResult, Program, run_job
from .processes import end_processes
from .rank_placement import RankAssignment
from .reaper import PrivateFolder

#: Names the folder in which a program keeps what it goes on from when it is started again.
STATE_VARIABLE = "JUPYTER_HVD_STATE"
#: In that folder it asks the ranks to end, with this exit code, when they have kept what they go on from.
RESIZE, RESIZED = "resize", 75
#: Seconds for which a place where a rank was lost is left out; twice as many each time.
COOLDOWN_SECONDS = 60.0
#: Seconds between two looks at the hosts, and for one of them to answer.
POLL_SECONDS, ANSWER = 5.0, 8.0
#: Seconds to wait for as many places as there must be.
PATIENCE = 600.0
#: Seconds that a program has to end by itself for more ranks, and seconds of computing that it may lose where it does not.
GRACE, LOST = 30.0, 180.0
#: So many faults in a row, between which nothing new was kept, are enough.
FAULTS = 3


class RestartPolicy:
    """Where a job begins, and where it goes on: on the same ranks, so many times at the most.

    Attributes:
        first: where it begins.
    """

    def __init__(self, ranks: RankAssignment, count: int) -> None:
        self.first = ranks
        self._left = count

    def place_after(self, result: JobResult, before: RankAssignment) -> RankAssignment | None:
        """Return where the job starts again after this result; None if it does not.

        Args:
            before: where it ran.

        Raises:
            LaunchError: there is no room for it.
        """
        self._left -= 1
        return before if self._left >= 0 else None

    @contextmanager
    def watch_start(
        self, ranks: RankAssignment, state: Path, end: Callable[[], None]
    ) -> Iterator[threading.Event]:
        """Watch one run of the job within a block; yield an event that is set if it ends to get more ranks.

        Args:
            state: the folder in which the program stores its state.
            end: ends this run.
        """
        yield threading.Event()


class ElasticRestartPolicy(RestartPolicy):
    """With as many ranks as there are places for, within bounds.

    A place is one of a host's slots. Where a rank was lost one is left out for a while, unless there are too few without it; a
    host that does not answer has none. When places come, or come back, the job is started again with more ranks as soon as
    its program has kept what it goes on from. A program that keeps nothing is ended for them, where it loses little.
    """

    def __init__(
        self,
        requested: RankAssignment,
        least: int,
        most: int,
        queued: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Look where there are places.

        Args:
            requested: how many ranks it is to begin with, and on which hosts they may be.
            queued: told what the job waits for, and "" when it need wait no more.

        Raises:
            LaunchError: the bounds do not fit, or its scheduler grants an allocation for one start only.
        """
        if not 1 <= least <= requested.size <= most:
            raise LaunchError(
                f"--elastic begins with {requested.size} ranks, which is not between --min {least} and --max {most}"
            )
        self._hosts = candidate_hosts(requested, most)
        self._least, self._most = least, most
        self._queued = queued
        self._lost: list[tuple[str, float]] = []
        self._losses: Counter[str] = Counter()
        self._state = Path()
        self._faults, self._checkpoint_time = 0, 0
        self.first = self._choose_hosts(self._wait_for_hosts(requested), requested, requested.size)

    def place_after(self, result: JobResult, before: RankAssignment) -> RankAssignment | None:
        """Return where the job starts again: without the slot of a failed rank for a while; None after too many faults."""
        kept, self._checkpoint_time = self._checkpoint_time, last_checkpoint_time(self._state)
        if self._checkpoint_time != kept:
            self._faults = 0
        elif result.code != RESIZED:
            self._faults += 1
        if self._faults >= FAULTS:
            return None
        if result.code != RESIZED and result.rank is not None:
            name = hosts_of_ranks(before.hosts)[result.rank]
            self._losses[name] += 1
            self._lost.append(
                (name, time.monotonic() + COOLDOWN_SECONDS * 2 ** (self._losses[name] - 1))
            )
        return self._choose_hosts(self._wait_for_hosts(before), before, self._most)

    def _wait_for_hosts(self, ranks: RankAssignment) -> list[Host]:
        """Wait until enough hosts answer, and return those that do.

        Raises:
            LaunchError: too few answered within `PATIENCE` seconds.
        """
        began = time.monotonic()
        while True:
            answering = answering_hosts(self._hosts, ranks.launcher.remote_shell)
            if sum(host.slots for host in answering) >= self._least:
                self._queued("")
                return answering
            there = sum(host.slots for host in answering)
            if time.monotonic() - began > PATIENCE:
                raise LaunchError(
                    f"within {PATIENCE:g} s there were places for {there} ranks only, and --min is {self._least}"
                )
            self._queued(f"waiting for hosts: there are places for {there} ranks of {self._least}")
            time.sleep(POLL_SECONDS)

    def _choose_hosts(
        self, answering: list[Host], ranks: RankAssignment, most: int
    ) -> RankAssignment:
        """Return a placement on the hosts that answer; slots of failed ranks are used only if needed.

        Args:
            most: the largest number of ranks.
        """
        fresh = without_slots(answering, self._slots_on_cooldown())
        room = sum(host.slots for host in fresh)
        hosts = fresh if room >= self._least else answering
        size = min(most, max(room, self._least))
        return replace(ranks, size=size, hosts=tuple(hosts), address=own_address(hosts))

    def _slots_on_cooldown(self) -> Counter[str]:
        """Return how many slots of each host are not used now, because a rank failed there."""
        now = time.monotonic()
        self._lost = [(name, until) for name, until in self._lost if until > now]
        return Counter(name for name, _ in self._lost)

    @contextmanager
    def watch_start(
        self, ranks: RankAssignment, state: Path, end: Callable[[], None]
    ) -> Iterator[threading.Event]:
        """Watch one run within a block, and end it once hosts have room for more ranks and little is lost."""
        self._state = state
        (state / RESIZE).unlink(missing_ok=True)
        over, ended, began = threading.Event(), threading.Event(), time.time()

        def look_for_hosts() -> None:
            while not over.wait(POLL_SECONDS):
                found = answering_hosts(self._hosts, ranks.launcher.remote_shell)
                room = sum(host.slots for host in without_slots(found, self._slots_on_cooldown()))
                if min(room, self._most) <= ranks.size:
                    continue
                if not (state / RESIZE).exists():
                    (state / RESIZE).touch()
                elif is_worth_ending(state, began):
                    ended.set()
                    end()
                    return

        watcher = threading.Thread(target=look_for_hosts, name="hvd-elastic", daemon=True)
        if ranks.size < self._most:
            watcher.start()
        try:
            yield ended
        finally:
            over.set()


def is_worth_ending(state: Path, began: float) -> bool:
    """Whether a program that was asked to end for more ranks has not done so in time, and would lose little.

    Args:
        state: the folder of its stored state.
        began: when this run started, in seconds since the epoch.
    """
    now = time.time()
    lost = now - max(began, last_checkpoint_time(state) / 1e9)
    return now - (state / RESIZE).stat().st_mtime > GRACE and lost < LOST


def candidate_hosts(requested: RankAssignment, most: int) -> tuple[Host, ...]:
    """Return the hosts on which an elastic job may have ranks at any time.

    Args:
        most: the largest number of ranks.

    Raises:
        LaunchError: they have too few slots, or are granted for one start only.
    """
    if not requested.hosts:
        raise LaunchError(
            "--elastic within an allocation that each start would have to wait for: ask for the allocation first "
            "(salloc, sbatch), and start the job within it"
        )
    if requested.where.hosts is not None:
        hosts = parse_hosts(requested.where.hosts)
        room = sum(host.slots for host in hosts)
        if room < most:
            raise LaunchError(
                f"-H {requested.where.hosts} has room for {room} ranks, not for {most}"
            )
        return hosts
    found = None if requested.is_local else current_allocation()
    return found.hosts_for(most) if found is not None else hosts_for(most, None)


def without_slots(hosts: list[Host], failed: Counter[str]) -> list[Host]:
    """Reduce each host's slots by those that failed; drop hosts without any left."""
    left = (Host(host.name, host.slots - failed[host.name]) for host in hosts)
    return [host for host in left if host.slots > 0]


def answering_hosts(hosts: tuple[Host, ...], remote_shell: str) -> list[Host]:
    """Return the hosts that answer now; all are asked at the same time."""
    with ThreadPoolExecutor(len(hosts)) as pool:
        answers = pool.map(lambda host: answers_now(host.name, remote_shell), hosts)
        return [host for host, there in zip(hosts, answers, strict=True) if there]


def answers_now(name: str, reach: str) -> bool:
    """Whether a host is this machine, or a command can be run on it."""
    from .placement import SRUN, SSH

    with suppress(LaunchError, OSError, subprocess.TimeoutExpired):
        if is_local(name):
            return True
        way = [*SRUN, f"--nodelist={name}"] if reach == "srun" else [*SSH, name]
        done = subprocess.run(  # noqa: S603 — a list of arguments, no shell
            [*way, "true"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=ANSWER,
            check=False,
        )
        return done.returncode == 0
    return False


def run_job_with_restarts(
    program: Program,
    folder: PrivateFolder,
    *,
    policy: RestartPolicy,
    restarted: Callable[[JobResult, RankAssignment], None],
    timeout: float | None = None,
    **options: Any,
) -> JobResult:
    """Run a job as `run_job` does, and again after faults, as the policy decides; return the last result.

    It does not run again if a program raises the same error twice in a row.

    Args:
        restarted: called before each restart with the last result and the next placement.
        timeout: seconds for all runs together.
        options: of `run_job`.

    Raises:
        LaunchError: the job cannot be started, or not again.
    """
    state = folder.path / "state"
    state.mkdir(mode=0o700)
    environment = {**options.pop("environment", {}), STATE_VARIABLE: str(state)}
    began, raised, ranks = time.monotonic(), "", policy.first
    while True:
        left = None if timeout is None else max(1.0, timeout - (time.monotonic() - began))
        with policy.watch_start(ranks, state, partial(end_processes, folder.job)) as ended:
            result = run_job(
                program, ranks, folder, timeout=left, environment=environment, **options
            )
        if result.code not in (0, TIMED_OUT) and ended.is_set():
            result = JobResult(RESIZED)
        before, raised = raised, error_in(result.report)
        if result.code in (0, TIMED_OUT) or (raised and raised == before):
            return result
        following = policy.place_after(result, ranks)
        if following is None:
            return result
        restarted(result, following)
        ranks = following


def last_checkpoint_time(state: Path) -> int:
    """Return when the program last stored its state, in nanoseconds since the epoch; 0 if never."""
    times = [
        file.stat().st_mtime_ns
        for file in state.iterdir()
        if file.name != RESIZE and file.suffix != ".new"
    ]
    return max(times, default=0)


def error_in(report: str) -> str:
    """Return the last line of a Python traceback; "" if the report has none."""
    return report.rstrip().rpartition("\n")[2] if report.startswith("Traceback ") else ""
