"""The processes of a notebook's ranks: started, watched and ended by its kernel.

kernel ─┬─ heartbeat connections ──┬─ placement
        │                          └─ rank 0 … rank N-1
        └─ messages (ZeroMQ) ──────── rank 0 … rank N-1     (they find one another by Gloo's rendezvous)
"""

from __future__ import annotations

import os
import queue
import secrets
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from contextlib import ExitStack, suppress
from importlib.util import find_spec
from typing import Any

from ..convert.rules.base import Batch
from ..launch.addresses import PORTS_VARIABLE, choose_ports
from ..launch.base import (
    HOROVODRUN,
    Exit,
    LaunchSpec,
    QueueReport,
    describe_exit,
    parse_report,
    rank_environment,
    start_placement,
)
from ..launch.heartbeat import HeartbeatServer
from ..launch.hosts import LaunchError
from ..launch.processes import end_processes
from ..launch.rank_placement import RankAssignment
from ..launch.reaper import PrivateFolder
from ..launch.start_faults import JOINED, RefusedAtStartError, is_refused_at_start
from ..launch.temporary_files import make_notes_folder
from ..ranks.forks import ForkServerCache
from ..runtime.sharing.program import BATCH_VARIABLE, SEED_VARIABLE
from .rank_messages import RankMessages

#: What a rank runs, and what it imports besides TensorFlow.
LIVING = "jupyter_hvd.ranks.notebook_rank"
PRELOADED = (LIVING,)
START_TIMEOUT = 120.0
#: Seconds for a placement to end with its job, and for its last words.
PLACEMENT_END, LAST_REPORT = 1.0, 0.3
#: Horovod's own check for stalls, which would end ranks that wait for one at a breakpoint. The kernel has its own check.
STALL_CHECK = "HOROVOD_STALL_CHECK_DISABLE"
STAGES = ("starting", "importing TensorFlow", "joining Horovod", JOINED)


class RankProcesses:
    """N ranks of one Horovod job. Started at once; ready some seconds later.

    Attributes:
        size: how many. where: as the user has asked. batch: which batches they share; None for ranks that share nothing.
        job: its name. started: when, by the monotonic clock. ready: whether `wait_ready` has seen them ready.
    """

    def __init__(
        self, assignment: RankAssignment, forks: ForkServerCache, batch: Batch | None = None
    ) -> None:
        """Start them there.

        Args:
            forks: where ranks on this machine come from.

        Raises:
            LaunchError: they cannot be started, and why.
        """
        for module, name in (("tensorflow", "TensorFlow"), ("horovod", "Horovod")):
            if find_spec(module) is None:
                raise LaunchError(f"{name} is not installed here: see `jupyter hvd doctor`")
        self._place, self.size, self.where, self.batch = (
            assignment,
            assignment.size,
            assignment.where,
            batch,
        )
        forked = assignment.is_local and assignment.launcher == HOROVODRUN
        self._forks = forks.server_variables() if forked else {}
        self.ready, self._stopped = False, False
        self.started = self._placing = time.monotonic()
        self._queued = ""
        self._events: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._log: deque[str] = deque(maxlen=60)
        self._exits: dict[int, int] = {}
        with ExitStack() as opened:
            try:
                self._open(opened)
            except OSError as error:
                raise LaunchError(f"the ranks cannot be started: {error}") from None
            self._opened = opened.pop_all()

    def _open(self, opened: ExitStack) -> None:
        """Listen for the ranks and start their placement; `opened` ends all of it in the reverse order."""
        folder = PrivateFolder()
        opened.callback(folder.remove_folder)
        self.job = folder.job
        opened.callback(
            end_processes, self.job, 0.5
        )  # they have had their time to end by themselves
        opened.callback(self._await_placement)
        self._placement: subprocess.Popen[str] | None = None
        address = self._place.address
        ports = choose_ports(address, os.environ.get(PORTS_VARIABLE)) or [0, 0, 0]
        self._heartbeats = HeartbeatServer(
            address,
            ports[0],
            lambda: self._events.put(None),
            ["launcher", *(f"rank {rank}" for rank in range(self.size))],
        )
        opened.callback(self._heartbeats.close)
        self._messages = RankMessages(address, ports[1], self._heartbeats.token, self._events.put)
        opened.callback(self._messages.close)
        variables = {
            **self._heartbeats.variables,
            **self._messages.variables,
            **make_notes_folder(folder.path),
            **self._forks,
            **self._sharing_variables(),
            STALL_CHECK: os.environ.get(STALL_CHECK, "1"),
        }
        orders = LaunchSpec(
            self.job,
            self.size,
            self._place.hosts,
            LIVING,
            (),
            rank_environment(self.job, variables),
            os.getcwd(),  # noqa: PTH109 — as the notebook names it
            address,
            ports[2],
            self._place.launcher,
            survivors_continue=True,
        )
        self._placement = start_placement(orders)
        threading.Thread(
            target=self._read_reports, args=(self._placement,), name="hvd-output", daemon=True
        ).start()

    def _await_placement(self) -> None:
        """Wait for the end of the placement's process, and kill it if that takes too long."""
        if self._placement is not None:
            with suppress(subprocess.TimeoutExpired):
                self._placement.wait(PLACEMENT_END)
            self._placement.kill()
            self._placement.wait()

    def stop(self) -> None:
        """End every process of the job."""
        if not self._stopped:
            self._stopped = True
            self._opened.close()

    @property
    def is_local(self) -> bool:
        """Whether all ranks are on this machine."""
        return self._place.is_local

    @property
    def shares_batches(self) -> bool:
        """Whether the ranks share what cells compute."""
        return self.batch is not None

    def _sharing_variables(self) -> Mapping[str, str]:
        """Return the environment variables by which ranks share batches; none if they share nothing."""
        if self.batch is None:
            return {}
        return {BATCH_VARIABLE: self.batch, SEED_VARIABLE: str(secrets.randbelow(2**31))}

    def _read_reports(self, placement: subprocess.Popen[str]) -> None:
        """Read the placement's reports until it ends."""
        assert placement.stdout is not None
        with suppress(ValueError, OSError):
            for line in placement.stdout:
                self._read_report(line.rstrip("\n"))
        placement.wait()
        self._events.put(None)

    def _read_report(self, line: str) -> None:
        """Note a report of the placement: a rank's exit, the wait in a queue, or a line of output."""
        report = parse_report(line)
        if isinstance(report, Exit):
            self._exits.setdefault(report.rank, report.code)
        elif isinstance(report, QueueReport):
            self._queued = report.text
            self._placing = time.monotonic()
        elif report is not None:
            self._log.append(
                report.text if report.rank is None else f"[{report.rank}] {report.text}"
            )
            self._events.put(report)

    def wait_ready(self, progress: Callable[[str, float], None]) -> None:
        """Wait until every rank has joined Horovod and takes requests.

        Args:
            progress: called with the stage and the seconds so far.

        Raises:
            LaunchError: they did not start, and why; no process is left. A RefusedAtStartError may pass by itself.
        """
        if self.ready:
            return
        try:
            while not self._advance_start():
                progress(self.describe_stage(), time.monotonic() - self.started)
                with suppress(queue.Empty):
                    self._events.get(timeout=0.05)
        except BaseException:
            self.stop()
            raise
        self.ready = True

    def _advance_start(self) -> bool:
        """Look once at the start of the ranks; return whether all of them take requests.

        Raises:
            LaunchError: they never will, or the time is over.
        """
        lost = self.find_lost()
        if lost is not None:
            time.sleep(LAST_REPORT)
            reports = [self.rank_report(rank) for rank in range(self.size)]
            refused = is_refused_at_start(self._exits.values(), reports, self.size, self._log)
            kind = RefusedAtStartError if refused else LaunchError
            raise kind(f"rank {lost[0]} did not start: {lost[1]}\n{self._log_tail()}")
        if self._has_ended():
            time.sleep(LAST_REPORT)
            raise LaunchError(f"the ranks did not start\n{self._log_tail()}")
        if not self._queued and time.monotonic() - self._placing > START_TIMEOUT:
            raise LaunchError(
                f"the ranks did not start within {START_TIMEOUT:g} s: {self.describe_stage()}\n{self._log_tail()}"
            )
        return len(self._messages.ready) == self.size

    def describe_stage(self) -> str:
        """Return how far the start is, in words."""
        if self._queued:
            return self._queued
        told = [self.rank_report(rank).get("stage") for rank in self._living_ranks()]
        if len(told) < self.size:
            return "importing TensorFlow" if self._forks else "placing them"
        return STAGES[min(STAGES.index(stage or STAGES[0]) for stage in told)]

    def _log_tail(self) -> str:
        """Return the last lines that the ranks have printed during the start."""
        lines = [line for line in self._log if line.strip()]
        return "\n".join(lines[-12:])

    # Who is there

    def rank_report(self, rank: int) -> Mapping[str, Any]:
        """Return what a rank has reported of itself: process id, host, stage; empty if nothing."""
        member = self._heartbeats.members.get(f"rank {rank}") or self._heartbeats.gone.get(
            f"rank {rank}"
        )
        return member.description if member else {}

    def find_lost(self, ranks: Collection[int] | None = None) -> tuple[int, str] | None:
        """Return the rank that failed first, of all or of some, and how; None if none has."""
        ranks = range(self.size) if ranks is None else ranks
        for name, member in list(self._heartbeats.gone.items()):
            if name.startswith("rank ") and (rank := int(name.removeprefix("rank "))) in ranks:
                if member.cut_off:
                    return (
                        rank,
                        f"its host {member.description.get('host', '')} does not answer any more",
                    )
                self._await_exit(rank)
                return rank, self._describe_end(rank)
        for rank in [rank for rank in self._exits if rank in ranks]:
            return rank, self._describe_end(rank)
        if self._stopped or self._has_ended():
            return 0, "the job was ended from outside"
        return None

    def _describe_end(self, rank: int) -> str:
        """Return how a rank's process ended, in words."""
        code = self._exits.get(rank)
        if code is None:
            return "its process ended"
        return describe_exit(code, self.rank_report(rank).get("host", ""))

    def _await_exit(self, rank: int) -> None:
        """Wait, at most 1.5 s, until the launcher has reported a rank's exit code, which follows the disconnection."""
        deadline = time.monotonic() + 1.5
        while rank not in self._exits and time.monotonic() < deadline:
            time.sleep(0.02)

    def _has_ended(self) -> bool:
        """Whether the placement's process has ended, and so the job."""
        return self._placement is not None and self._placement.poll() is not None

    def _living_ranks(self) -> list[int]:
        """Return the ranks that are connected and have not exited."""
        here = self._heartbeats.members
        return [r for r in range(self.size) if f"rank {r}" in here and r not in self._exits]
