"""Calls of functions on a notebook's ranks, and questions to them.

Requests, answers and output are messages (`rank_messages.py`). The heartbeat connections tell that a rank is there and where
it is.
"""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from functools import partial
from typing import Any

from ..convert.rules.base import Batch
from ..launch.rank_placement import RankAssignment
from ..ranks import debugger, remote
from ..ranks.forks import ForkServerCache
from ..ranks.messages import dump
from ..ranks.paths import AccessPath
from ..ranks.reply import Reply
from ..ranks.serialization import SerializedValue
from .breakpoints import BreakpointPrompts
from .monitor import ABORT_PATIENCE, Answer, CallMonitor, Run, Show
from .rank_processes import RankProcesses

#: Seconds without a call after which the ranks leave Horovod, whose threads never sleep; the next call lets them join it again.
REST_AFTER = 300.0
#: Variables of Horovod's by which what it keeps is more than can be begun anew behind the user's back.
KEEPS_MORE = ("HOROVOD_TIMELINE", "HOROVOD_AUTOTUNE", "HOROVOD_DYNAMIC_PROCESS_SETS")
#: Seconds for the ranks to leave Horovod, and to join it; they take less than one.
REJOIN_TIMEOUT = 30.0
#: Seconds for weights to come from a rank that is to be ended.
RESCUE_TIMEOUT = 60.0
#: Seconds for what ranks write last below Python, since they were heard last, and in all.
LAST_WORDS, LATE_WORDS = 0.5, 10.0


class Cluster(RankProcesses):
    """Ranks that can be called.

    Attributes:
        calls: how often they have been: each call is a round trip.
    """

    def __init__(
        self, assignment: RankAssignment, forks: ForkServerCache, batch: Batch | None = None
    ) -> None:
        self.calls = 0
        #: The last question of each kind to each rank, by the rank and the name of the function, and its answer.
        self._questions: dict[tuple[int, str], tuple[bytes, Future[Any]]] = {}
        self._resting = False
        self._rest_timer: threading.Timer | None = None
        self._turn = threading.RLock()  # a call, or going to rest
        super().__init__(assignment, forks, batch)

    def stop(self) -> None:
        """End every process of the job, and wait for their end."""
        if self._rest_timer is not None:
            self._rest_timer.cancel()
        super().stop()

    def run(
        self,
        function: Callable[..., Any],
        *args: Any,
        show: Show = lambda _: None,
        timeout: float | None = None,
        marker: str | None = None,
        ranks: Sequence[int] | None = None,
        aborts: bool = True,
        prompts: BreakpointPrompts | None = None,
    ) -> Run:
        """Call a function on the ranks, show what they print, and wait until they have returned or failed.

        An interrupt of the kernel interrupts the ranks. Ranks that do not react to it may wait in a collective operation:
        this operation is aborted, and the ranks must join Horovod again.
            prompts: asks the user what the debugger of a rank wants to know.

        Args:
            timeout: seconds after which the ranks are interrupted; None for no limit.
            marker: a line that each rank writes to both streams at its end, below Python.
            ranks: those to call; None for all.
            aborts: whether collective operations may be aborted, which leaves the ranks without Horovod.
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
                request = dump((function, *args))
                waiting = CallMonitor(call, set(ranks), show, marker, time.monotonic())
                return self._run_call(waiting, request, ranks, timeout, aborts, prompts)
            finally:
                self._rest_later(call)

    def _run_call(
        self,
        waiting: CallMonitor,
        request: bytes,
        ranks: Collection[int],
        timeout: float | None,
        aborts: bool,
        prompts: BreakpointPrompts | None,
    ) -> Run:
        call, asked_at, lost = waiting.call, time.monotonic(), None
        self._send_request(call, request, ranks)
        while True:
            try:
                self._pump_events(waiting)
                self._answer_debuggers(waiting, ranks, prompts)
                if not waiting.open or (lost := self.find_lost(ranks)) is not None:
                    break
                now = time.monotonic()
                if waiting.stopped is None and now - asked_at > 1:  # a short cell is not asked
                    self._watch_ranks(waiting, now)
                    asked_at = now
                step = waiting.next_step(now, timeout, aborts)
                if step == "give up":
                    break
                if step == "abort":
                    self._ask_all(remote.abort_call, call)
                if step is not None:
                    self._ask_all(remote.interrupt_call, call)
            except KeyboardInterrupt:
                if waiting.stopped is not None:
                    break
                waiting.note_stop("interrupt", time.monotonic())
                self._ask_all(remote.interrupt_call, call)
        if lost is not None:
            self._abort_call(waiting)
            return waiting.end_call(lost)
        if not waiting.open:
            self._let_finish(waiting)
            if (
                waiting.stopped == "deadlock"
                and all_well(waiting.replies)
                and (not waiting.waited or self.rejoin_horovod())
            ):
                return Run(waiting.replies)  # who was late has come after all
        return waiting.end_call()

    def _answer_debuggers(
        self, waiting: CallMonitor, ranks: Collection[int], prompts: BreakpointPrompts | None
    ) -> None:
        """Answer what debuggers of ranks ask; those of a call that is stopped go on.

        Raises:
            KeyboardInterrupt: the user interrupts the kernel instead of answering.
        """
        while waiting.asked:
            message, began, answer = waiting.asked.popleft(), time.monotonic(), None
            if prompts is not None and waiting.stopped is None:
                answer = prompts.answer(message, lambda: self.find_lost(ranks) is not None)
            now = time.monotonic()
            waiting.note_pause(now - began, now)
            if "number" in message.content:
                reply = dump((debugger.take_answer, message.content["number"], answer))
                self._messages.ask(message.rank, reply, lambda _: None)

    def _send_request(self, call: int, request: bytes, ranks: Collection[int]) -> None:
        """Discard events of earlier calls and send a call to some ranks; their answers become events."""
        with suppress(queue.Empty):
            while True:
                self._events.get_nowait()

        def note_answer(rank: int, value: Any) -> None:
            self._events.put(Answer(rank, value, call))

        for rank in ranks:
            self._messages.call(rank, call, request, partial(note_answer, rank))

    def _rest_later(self, call: int) -> None:
        """After `REST_AFTER` seconds without another call, let the ranks leave Horovod."""

        def rest_ranks() -> None:
            if self._turn.acquire(blocking=False):  # else there is a call
                try:
                    if not self._stopped:
                        self._resting = True
                        self._ask_all(remote.abort_call, call)
                finally:
                    self._turn.release()

        mpi = self._place.launcher.by_mpi
        if not mpi and not self._stopped and not any(name in os.environ for name in KEEPS_MORE):
            self._rest_timer = threading.Timer(REST_AFTER, rest_ranks)
            self._rest_timer.daemon = True
            self._rest_timer.start()

    def ranks_agree(self) -> bool:
        """Whether all ranks take part in a small allreduce; blocks for at most `REJOIN_TIMEOUT` seconds."""
        return self._all_answer(remote.count_agreeing_ranks, self.size)

    def rejoin_horovod(self) -> bool:
        """Let all ranks leave Horovod and join it again; return whether they work together afterwards.

        None joins before all have left, since it would find the others at their old addresses.
        """
        return (
            self._all_answer(remote.leave_horovod, None)
            and self._all_answer(remote.rejoin_horovod, self.size)
            and self.ranks_agree()
        )

    def synchronize_ranks(self, names: Collection[str]) -> set[str] | None:
        """Synchronize the ranks after they stopped at different points; None if that fails.

        Returns:
            Those of the names whose values have a position in a stream on some rank, such as iterators.
        """
        run = self.run(remote.list_iterator_names, sorted(names), timeout=REJOIN_TIMEOUT)
        replies = list(run.replies.values())
        if not run.is_usable or run.stopped or not all(isinstance(r, list) for r in replies):
            return None
        return {name for reply in replies for name in reply}

    def _all_answer(self, function: Callable[[], Any], expected: Any) -> bool:
        """Run `function` on every rank; return whether all return `expected` within `REJOIN_TIMEOUT` seconds."""
        run = self.run(function, timeout=REJOIN_TIMEOUT)
        return (
            run.is_usable and not run.stopped and all(r == expected for r in run.replies.values())
        )

    def _abort_call(self, waiting: CallMonitor) -> None:
        """Interrupt a call and abort its collective operations after a rank has failed; wait for the others."""
        self._ask_all(remote.interrupt_call, waiting.call)
        self._ask_all(remote.abort_call, waiting.call)
        deadline = time.monotonic() + ABORT_PATIENCE
        while waiting.open & set(self._living_ranks()) and time.monotonic() < deadline:
            with suppress(KeyboardInterrupt):
                self._pump_events(waiting)

    def rescue_values(
        self, paths: Collection[AccessPath], stuck: Collection[int]
    ) -> Mapping[str, SerializedValue]:
        """Return the values that some access paths lead to on one living rank that is not stuck.

        Blocks for at most `RESCUE_TIMEOUT` seconds. Returns an empty mapping if no rank can answer.
        """
        for rank in [rank for rank in self._living_ranks() if rank not in stuck][:1]:
            run = self.run(
                remote.get_values, list(paths), ranks=[rank], timeout=RESCUE_TIMEOUT, aborts=False
            )
            found = run.replies.get(rank)
            if run.is_usable and isinstance(found, dict):
                return found
        return {}

    def _pump_events(self, waiting: CallMonitor, seconds: float = 0.1) -> bool:
        """Wait for events for some seconds, and process all that have arrived; return whether there were any."""
        heard = False
        with suppress(queue.Empty):
            while True:
                event = self._events.get(timeout=0.0 if heard else seconds)
                heard = True
                waiting.take_event(event, time.monotonic())
        return heard

    def _watch_ranks(self, waiting: CallMonitor, now: float) -> None:
        """Record where the running ranks are, ask them again, and report a stall."""
        for rank in list(waiting.open):
            told = self.rank_report(rank)
            if "place" in told:
                waiting.note_position(rank, told["place"], now)
            self._heartbeats.send(f"rank {rank}", {"where": waiting.question})
        waiting.tell_stall(now)

    def ask_ranks(
        self,
        function: Callable[..., Any],
        *args: Any,
        ranks: Sequence[int] | None = None,
        within: float = 2.0,
    ) -> dict[int, Any]:
        """Call a function on ranks in a thread beside their main one; callable from any thread, during other calls.

        The function must change nothing. Failed ranks are not asked. A rank that has not answered an earlier question
        with this function is not asked again; its answer counts if the arguments are the same.

        Args:
            within: seconds to wait.

        Returns:
            The answers that came in time, by rank; a RemoteError if the function failed.
        """
        if not self.ready:
            return {}
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
        """Wait for output that ranks have written below Python, which may arrive after their answers."""
        late = time.monotonic() + LATE_WORDS
        while not waiting.all_marked() and time.monotonic() < late:
            if not self._pump_events(waiting, LAST_WORDS):
                break
        self._pump_events(waiting, 0.0)

    def _ask_all(self, function: Callable[[int], None], call: int) -> None:
        """Let all ranks call a function in a thread beside their main one, without waiting for answers."""
        for rank in range(self.size):
            self._messages.ask(rank, dump((function, call)), lambda _: None)


def all_well(replies: Mapping[int, Any]) -> bool:
    """Whether no rank reported an error."""
    return not any(isinstance(reply, Reply) and reply.error for reply in replies.values())
