"""A notebook's ranks of one Horovod job, as its kernel holds them.

    kernel ─┬─ heartbeat connections ──┬─ placement
            │                          └─ rank 0 … rank N-1
            └─ messages (ZeroMQ) ──────── rank 0 … rank N-1     (they find one another by Gloo's rendezvous)

Requests, answers and output are messages (`rank_messages.py`). Heartbeat connections tell that a rank is there, and carry what
must reach a rank while it computes: interrupt, abort, report your position.
"""

from __future__ import annotations

import os
import queue
import secrets
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from typing import Any

from ..convert.rules.base import Batch
from ..launch.addresses import PORTS_VARIABLE, choose_ports
from ..launch.base import (
    HOROVODRUN,
    Exit,
    Orders,
    Queued,
    describe_exit,
    parse_report,
    rank_environment,
    start_placement,
)
from ..launch.heartbeat import HeartbeatServer
from ..launch.hosts import LaunchError
from ..launch.processes import end_processes
from ..launch.rank_placement import Place
from ..launch.reaper import PrivateFolder
from ..launch.temporary_files import make_notes_folder
from ..ranks import remote
from ..ranks.forks import KeptForks
from ..ranks.messages import dump
from ..ranks.paths import AccessPath
from ..ranks.reply import Reply
from ..ranks.serialization import SerializedValue
from ..runtime.sharing.program import BATCH_VARIABLE, SEED_VARIABLE
from .monitor import ABORT_PATIENCE, PATIENCE, Answer, CallMonitor, Reason, Run, Show
from .rank_messages import RankMessages

#: What a rank runs, and what it imports besides TensorFlow.
LIVING = "jupyter_hvd.ranks.notebook_rank"
PRELOADED = (LIVING,)
START_TIMEOUT = 120.0
#: Seconds without a call after which the ranks leave Horovod, whose threads never sleep; the next call lets them join it again.
REST_AFTER = 300.0
#: Variables of Horovod's by which what it keeps is more than can be begun anew behind the user's back.
KEEPS_MORE = ("HOROVOD_TIMELINE", "HOROVOD_AUTOTUNE", "HOROVOD_DYNAMIC_PROCESS_SETS")
#: Seconds for the ranks to leave Horovod, and to join it; they take less than one.
REJOIN_TIMEOUT = 30.0
#: Seconds for weights to come from a rank that is to be ended.
RESCUE_TIMEOUT = 60.0
#: Seconds between interrupts, one of which may be lost: what is raised in a callback of the garbage collector, Python ignores.
INTERRUPT_AGAIN = 1.0
#: Seconds for what ranks write last below Python, since they were heard last, and in all.
LAST_WORDS, LATE_WORDS = 0.5, 10.0


class Cluster:
    """N ranks of one Horovod job. Made at once; ready some seconds later."""

    def __init__(self, place: Place, forks: KeptForks, batch: Batch | None = None) -> None:
        """Start them there.

        Args:
            forks: where ranks on this machine come from.
            batch: which batches they share; None for ranks that share nothing.

        Raises:
            LaunchError: they cannot be started, and why.
        """
        for module, name in (
            ("tensorflow", "TensorFlow"),
            ("horovod", "Horovod"),
        ):
            if find_spec(module) is None:
                raise LaunchError(f"{name} is not installed here: see `jupyter hvd doctor`")
        self._place, self.size, self.where = place, place.size, place.where
        self.batch = batch
        forked = place.is_local and place.launcher == HOROVODRUN
        self._forks = forks.server_variables() if forked else {}
        self.ready = False
        self.started = self._placing = time.monotonic()
        #: How often the ranks have been called: each call is a round trip.
        self.calls = 0
        self._events: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._log: deque[str] = deque(maxlen=60)
        self._exits: dict[int, int] = {}
        #: The last question of each kind to each rank, by the rank and the name of the function, and its answer.
        self._questions: dict[tuple[int, str], tuple[bytes, Future[Any]]] = {}
        self._lifelines: HeartbeatServer | None = None
        self._messages: RankMessages | None = None
        self._placement: subprocess.Popen[str] | None = None
        self._stopped = False
        self._resting = False
        self._rest_timer: threading.Timer | None = None
        self._turn = threading.RLock()  # a call, or going to rest
        self._queued = ""
        self._folder = PrivateFolder()
        self.job = self._folder.job
        try:
            self._launch_ranks()
        except OSError as error:
            self.stop()
            raise LaunchError(f"the ranks cannot be started: {error}") from None
        except BaseException:
            self.stop()
            raise

    @property
    def is_local(self) -> bool:
        """Whether all ranks are on this machine."""
        return self._place.is_local

    # Start and stop

    def _launch_ranks(self) -> None:
        address = self._place.address
        ports = choose_ports(address, os.environ.get(PORTS_VARIABLE))
        self._lifelines = HeartbeatServer(
            address,
            ports[0] if ports else 0,
            lambda: self._events.put(None),
            ["launcher", *(f"rank {rank}" for rank in range(self.size))],
        )
        self._messages = RankMessages(
            address, ports[2] if ports else 0, self._lifelines.token, self._events.put
        )
        orders = Orders(
            self.job,
            self.size,
            self._place.hosts,
            LIVING,
            (),
            rank_environment(
                self.job,
                {
                    **self._lifelines.variables,
                    **self._messages.variables,
                    **make_notes_folder(self._folder.path),
                    **self._forks,
                    **self._sharing_variables(),
                },
            ),
            os.getcwd(),  # noqa: PTH109 — as the notebook names it
            address,
            ports[1] if ports else 0,
            self._place.launcher,
            outlive=True,
        )
        self._placement = start_placement(orders)
        threading.Thread(
            target=self._read_reports, args=(self._placement,), name="hvd-output", daemon=True
        ).start()

    @property
    def shares_batches(self) -> bool:
        """Whether the ranks share what cells compute."""
        return self.batch is not None

    def _sharing_variables(self) -> Mapping[str, str]:
        """The variables by which ranks share what cells compute."""
        if self.batch is None:
            return {}
        return {BATCH_VARIABLE: self.batch, SEED_VARIABLE: str(secrets.randbelow(2**31))}

    def _read_reports(self, placement: subprocess.Popen[str]) -> None:
        assert placement.stdout is not None
        with suppress(ValueError, OSError):
            for line in placement.stdout:
                self._read_report(line.rstrip("\n"))
        placement.wait()
        self._events.put(None)

    def _read_report(self, line: str) -> None:
        report = parse_report(line)
        if isinstance(report, Exit):
            self._exits.setdefault(report.rank, report.code)
        elif isinstance(report, Queued):
            self._queued = report.text
            self._placing = time.monotonic()
        elif report is not None:
            self._log.append(
                report.text if report.rank is None else f"[{report.rank}] {report.text}"
            )
            self._events.put(report)

    def wait_ready(self, progress: Callable[[str, float], None]) -> None:
        """Wait until every rank has joined Horovod and listens.

        Args:
            progress: told what is going on, and for how many seconds.

        Raises:
            LaunchError: they did not start, and why; nothing is left running.
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
        """Whether the ranks take requests.

        Raises:
            LaunchError: they will not.
        """
        assert self._messages is not None
        assert self._placement is not None
        lost = self.find_lost()
        if lost is not None:
            raise LaunchError(f"rank {lost[0]} did not start: {lost[1]}\n{self._log_tail()}")
        if self._placement.poll() is not None:
            time.sleep(0.3)  # its last words
            raise LaunchError(f"the ranks did not start\n{self._log_tail()}")
        if not self._queued and time.monotonic() - self._placing > START_TIMEOUT:
            raise LaunchError(
                f"the ranks did not start within {START_TIMEOUT:g} s: {self.describe_stage()}\n{self._log_tail()}"
            )
        return len(self._messages.ready) == self.size

    def describe_stage(self) -> str:
        """How far the start is, in words."""
        assert self._lifelines is not None
        if self._queued:
            return self._queued
        stages = [
            m.told.get("stage", "starting")
            for n, m in self._lifelines.members.items()
            if n.startswith("rank")
        ]
        if len(stages) < self.size:
            return "importing TensorFlow" if self._forks else "placing them"
        order = ("starting", "importing TensorFlow", "joining Horovod", "joined")
        return order[min(map(order.index, stages))]

    def _log_tail(self) -> str:
        lines = [line for line in self._log if line.strip()]
        return "\n".join(lines[-12:])

    def stop(self) -> None:
        """End every process of the job."""
        if self._stopped:
            return
        self._stopped = True
        if self._rest_timer is not None:
            self._rest_timer.cancel()
        if self._lifelines is not None:
            self._lifelines.close()
        if self._messages is not None:
            self._messages.close()
        if self._placement is not None:
            with suppress(subprocess.TimeoutExpired):
                self._placement.wait(1)
            self._placement.kill()
        end_processes(self.job, 0.5)  # they have had their time to heed the lifeline
        if self._placement is not None:
            self._placement.wait()
        self._folder.remove_folder()

    # Who is there

    def rank_report(self, rank: int) -> Mapping[str, Any]:
        """The process id and host that a rank has reported."""
        assert self._lifelines is not None
        member = self._lifelines.members.get(f"rank {rank}") or self._lifelines.gone.get(
            f"rank {rank}"
        )
        return member.told if member else {}

    def find_lost(self, ranks: Collection[int] | None = None) -> tuple[int, str] | None:
        """The rank that went first, of all or of some, and how, where one has gone."""
        assert self._lifelines is not None
        ranks = range(self.size) if ranks is None else ranks
        for name, member in list(self._lifelines.gone.items()):
            if name.startswith("rank ") and (rank := int(name.removeprefix("rank "))) in ranks:
                if member.cut_off:
                    return rank, f"its host {member.told.get('host', '')} does not answer any more"
                self._await_exit(rank)
                return rank, self._how_ended(rank)
        for rank in [rank for rank in self._exits if rank in ranks]:
            return rank, self._how_ended(rank)
        if self._stopped or (self._placement is not None and self._placement.poll() is not None):
            return 0, "the job was ended from outside"
        return None

    def _how_ended(self, rank: int) -> str:
        code = self._exits.get(rank)
        if code is None:
            return "its process ended"
        return describe_exit(code, self.rank_report(rank).get("host", ""))

    def _await_exit(self, rank: int) -> None:
        """The launcher names the exit code a moment after the connection has ended."""
        deadline = time.monotonic() + 1.5
        while rank not in self._exits and time.monotonic() < deadline:
            time.sleep(0.02)

    # Calls

    def run(
        self,
        function: Callable[..., Any],
        *args: Any,
        show: Show = lambda _: None,
        timeout: float | None = None,
        marker: str | None = None,
        ranks: Sequence[int] | None = None,
        aborts: bool = True,
    ) -> Run:
        """Call a function on all ranks, pass on what they print, and wait.

        Args:
            timeout: seconds after which the ranks are interrupted.
            marker: a line that each rank writes at its end to both streams, below Python.
            aborts: whether collective operations may be aborted, which leaves the ranks without Horovod.

        An interrupt of the kernel while it waits interrupts the ranks. Those that do not heed it may wait in a
        collective operation: then these are aborted, and Horovod is to be joined anew.
        """
        if self._rest_timer is not None:
            self._rest_timer.cancel()
        with self._turn:
            if self._resting and aborts:
                self._resting = False
                if not self.rejoin_horovod():
                    return Run({}, lost=(0, "it could not join Horovod again after a rest"))
            self.calls += 1
            call = self.calls
            ranks = range(self.size) if ranks is None else ranks
            try:
                return self._run_call(call, function, args, show, timeout, marker, ranks, aborts)
            finally:
                self._rest_later(call)

    def _run_call(
        self,
        call: int,
        function: Callable[..., Any],
        args: Sequence[Any],
        show: Show,
        timeout: float | None,
        marker: str | None,
        ranks: Collection[int],
        aborts: bool,
    ) -> Run:
        assert self._messages is not None
        self._forget_events()
        request = dump((function, *args))
        started = time.monotonic()
        waiting = CallMonitor(call, set(ranks), show, marker, started)

        def note_answer(rank: int, value: Any) -> None:
            self._events.put(Answer(rank, value, call))

        for rank in ranks:
            self._messages.call(rank, call, request, partial(note_answer, rank))
        stopped: Reason | None = None
        waited: tuple[int, ...] = ()
        stopped_at = asked_at = started
        lost = None
        while True:
            try:
                self._pump_events(waiting)
                now = time.monotonic()
                if not waiting.open or (lost := self.find_lost(ranks)) is not None:
                    break
                if stopped is None:
                    if now - asked_at > 1:  # a short cell is not asked at all
                        self._watch_ranks(waiting, now)
                        asked_at = now
                    stopped = waiting.reason_to_stop(now, timeout)
                    if stopped is not None:
                        self.interrupt_call(call)
                        stopped_at = now
                elif waited:
                    if now - stopped_at > PATIENCE[stopped] + ABORT_PATIENCE:
                        break
                    if now - asked_at > INTERRUPT_AGAIN:
                        self.interrupt_call(call)
                        asked_at = now
                elif now - stopped_at > PATIENCE[stopped]:
                    if not aborts:
                        break
                    waited = tuple(sorted(waiting.open))
                    self._tell_ranks({"abort": call})
                    self.interrupt_call(call)
                    asked_at = now
            except KeyboardInterrupt:
                if stopped is not None:
                    break
                stopped, stopped_at = "interrupt", time.monotonic()
                self.interrupt_call(call)
        if lost is not None:
            self._abort_call(waiting)
            return Run(waiting.replies, stopped, waited, tuple(sorted(waiting.open)), lost)
        if not waiting.open:
            self._let_finish(waiting)
            if (
                stopped == "deadlock"
                and all_well(waiting.replies)
                and (not waited or self.rejoin_horovod())
            ):
                return Run(waiting.replies)  # who was late has come after all
        return Run(waiting.replies, stopped, waited, tuple(sorted(waiting.open)))

    def _rest_later(self, call: int) -> None:
        """Let the ranks leave Horovod when this was the last call for long."""

        def rest_ranks() -> None:
            if self._turn.acquire(blocking=False):  # else there is a call
                try:
                    if not self._stopped:
                        self._resting = True
                        self._tell_ranks({"abort": call})
                finally:
                    self._turn.release()

        mpi = self._place.launcher.by_mpi
        if not mpi and not self._stopped and not any(name in os.environ for name in KEEPS_MORE):
            self._rest_timer = threading.Timer(REST_AFTER, rest_ranks)
            self._rest_timer.daemon = True
            self._rest_timer.start()

    def ranks_agree(self) -> bool:
        """Whether the ranks work together, by a small sum over all of them."""
        return self._all_answer(remote.count_agreeing_ranks, self.size)

    def rejoin_horovod(self) -> bool:
        """Restart Horovod in the living ranks; whether they work together then.

        None joins before all have left: it would find the others where they were.
        """
        return (
            self._all_answer(remote.leave_horovod, None)
            and self._all_answer(remote.rejoin_horovod, self.size)
            and self.ranks_agree()
        )

    def draw_level(self, names: Collection[str]) -> set[str] | None:
        """Synchronise the ranks for the next cell, after they stopped at different points; None where that fails.

        Returns:
            which of these names stand for what goes on, in an order of its own, from where it has come to.
        """
        run = self.run(remote.draw_level, sorted(names), timeout=REJOIN_TIMEOUT)
        replies = list(run.replies.values())
        if not run.is_usable or run.stopped or not all(isinstance(r, list) for r in replies):
            return None
        return {name for reply in replies for name in reply}

    def _all_answer(self, function: Callable[[], Any], expected: Any) -> bool:
        """Whether every rank runs `function` within REJOIN_TIMEOUT and returns `expected`."""
        run = self.run(function, timeout=REJOIN_TIMEOUT)
        return (
            run.is_usable and not run.stopped and all(r == expected for r in run.replies.values())
        )

    def _abort_call(self, waiting: CallMonitor) -> None:
        """Let those come back from a call that are there, where one has gone."""
        self.interrupt_call(waiting.call)
        self._tell_ranks({"abort": waiting.call})
        deadline = time.monotonic() + ABORT_PATIENCE
        while waiting.open & set(self._living_ranks()) and time.monotonic() < deadline:
            with suppress(KeyboardInterrupt):
                self._pump_events(waiting)

    def _living_ranks(self) -> list[int]:
        assert self._lifelines is not None
        here = self._lifelines.members
        return [r for r in range(self.size) if f"rank {r}" in here and r not in self._exits]

    def rescue_values(
        self, paths: Collection[AccessPath], stuck: Collection[int]
    ) -> Mapping[str, SerializedValue]:
        """What some paths lead to, by path, from the first rank that is there and not stuck, before all are ended."""
        for rank in [rank for rank in self._living_ranks() if rank not in stuck][:1]:
            run = self.run(
                remote.get_values, list(paths), ranks=[rank], timeout=RESCUE_TIMEOUT, aborts=False
            )
            found = run.replies.get(rank)
            if run.is_usable and isinstance(found, dict):
                return found
        return {}

    def _pump_events(self, waiting: CallMonitor) -> None:
        """Wait for news for a moment, and take in all there is."""
        with suppress(queue.Empty):
            waiting.take_event(self._events.get(timeout=0.1), time.monotonic())
            while True:
                waiting.take_event(self._events.get_nowait(), time.monotonic())

    def _watch_ranks(self, waiting: CallMonitor, now: float) -> None:
        """Take in where those are that still run, and ask them again."""
        assert self._lifelines is not None
        for rank in list(waiting.open):
            told = self.rank_report(rank)
            if "place" in told:
                waiting.note_position(rank, told["place"], now)
            self._lifelines.send(f"rank {rank}", {"where": waiting.call})
        waiting.tell_stall(now)

    def ask_ranks(
        self,
        function: Callable[..., Any],
        *args: Any,
        ranks: Sequence[int] | None = None,
        within: float = 2.0,
    ) -> dict[int, Any]:
        """Call a function on ranks beside what they run; from any thread, while another call goes on.

        The function changes nothing. A rank that has gone is not asked, nor one that still owes the answer to a call of it: that
        answer counts where the arguments are the same.

        Returns:
            what those have answered that did within some seconds; a RemoteError where the function failed.
        """
        if not self.ready:
            return {}
        assert self._messages is not None
        question, asked = dump((function, *args)), dict[int, Future[Any]]()
        for rank in self._living_ranks() if ranks is None else {*ranks} & {*self._living_ranks()}:
            key = (rank, function.__name__)
            owed, future = self._questions.get(key, (b"", None))
            if future is None or future.done():
                asked[rank] = future = Future[Any]()
                self._questions[key] = question, future
                self._messages.ask(rank, question, future.set_result)
            elif owed == question:
                asked[rank] = future
        wait(asked.values(), within)
        return {rank: future.result() for rank, future in asked.items() if future.done()}

    def _let_finish(self, waiting: CallMonitor) -> None:
        """What ranks have written below Python goes another way than their answers, and may come later."""
        late = time.monotonic() + LATE_WORDS
        with suppress(queue.Empty):
            while not waiting.all_marked() and time.monotonic() < late:
                waiting.take_event(self._events.get(timeout=LAST_WORDS), time.monotonic())
            while True:
                waiting.take_event(self._events.get_nowait(), time.monotonic())

    def _forget_events(self) -> None:
        with suppress(queue.Empty):
            while True:
                self._events.get_nowait()

    def interrupt_call(self, call: int) -> None:
        """Stop a call on the ranks, as the stop button does a cell, also on those that have not begun it."""
        self._tell_ranks({"interrupt": call})

    def _tell_ranks(self, message: Mapping[str, Any]) -> None:
        assert self._lifelines is not None
        for rank in range(self.size):
            self._lifelines.send(f"rank {rank}", message)


def all_well(replies: Mapping[int, Any]) -> bool:
    return not any(isinstance(reply, Reply) and reply.error for reply in replies.values())
