"""Monitors a call on all ranks: which ranks have replied, and whether it makes progress.

Has no sockets and no processes: messages and times are arguments.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ..launch.base import Output
from ..launch.job_monitor import WAITS, is_due, is_hang
from ..launch.progress import STALL_SECONDS, Progress, Stall
from ..ranks.messages import BREAKPOINT, INPUT
from ..ranks.reply import RemoteError, Reply

#: How long the other ranks may go on when one has failed.
GRACE = 1.5

Reason = Literal["interrupt", "timeout", "error", "deadlock"]
#: For how many seconds ranks may heed an interrupt before collective operations are aborted, which costs them nothing but the
#: time to join Horovod anew. In a deadlock nothing else helps.
PATIENCE: Mapping[Reason, float] = {
    "interrupt": 1.5,
    "timeout": 1.5,
    "error": 1.5,
    "deadlock": 0.5,
}
#: For how many seconds more they may come back then, before they are held to be stuck for good.
ABORT_PATIENCE = 5.0
#: Seconds between interrupts, one of which may be lost: what is raised in a callback of the garbage collector, Python ignores.
INTERRUPT_AGAIN = 1.0
#: What is to be done with the ranks of a call that does not end.
Step = Literal["interrupt", "abort", "give up"]


@dataclass(frozen=True)
class Message:
    """Output of a rank in some call, as in the Jupyter protocol: a stream, a display, …"""

    rank: int
    kind: str
    content: Mapping[str, Any]
    call: int = 0


@dataclass(frozen=True)
class Answer:
    """What a function that was called on a rank has returned; a RemoteError where it failed."""

    rank: int
    value: Any
    call: int


@dataclass(frozen=True)
class ProgressResumed:
    """Ranks that made no progress do so again.

    Attributes:
        seconds: for how long they waited, as was last seen.
    """

    seconds: float


#: What is shown of a call: what ranks print and display, that they make no progress, that they do again.
Shown = Message | Stall | ProgressResumed
Show = Callable[[Shown], None]


@dataclass(frozen=True)
class Run:
    """How a call on all ranks ended.

    Attributes:
        replies: what each rank answered, by rank.
        stopped: why ranks were interrupted, if they were.
        waited: ranks that did not handle the interrupt, after which collective operations were aborted.
        stuck: those of them that did not return even then.
        lost: the failed rank, and how it failed, where one has.
    """

    replies: Mapping[int, Any]
    stopped: Reason | None = None
    waited: tuple[int, ...] = ()
    stuck: tuple[int, ...] = ()
    lost: tuple[int, str] | None = None

    @property
    def is_usable(self) -> bool:
        """Whether the ranks can run the next cell: none was lost, and none is stuck."""
        return self.lost is None and not self.stuck

    @property
    def has_trained(self) -> bool:
        """Whether any rank has trained in this run."""
        return any(isinstance(reply, Reply) and reply.trained for reply in self.replies.values())

    @property
    def is_replicated(self) -> bool:
        """Whether all ranks have trained the same, as far as they tell by themselves."""
        return len({r.trained for r in self.replies.values() if isinstance(r, Reply)}) == 1

    @property
    def in_step(self) -> bool:
        """Whether the run was not stopped, and the ranks that replied had no error, or all the same one at the same lines."""
        ends = [reply.error for reply in self.replies.values() if isinstance(reply, Reply)]
        kinds = {e and (e.type, e.text, *((f.file, f.line) for f in e.frames)) for e in ends}
        return self.stopped is None and len(kinds) <= 1


class CallMonitor:
    """What has been heard of a call so far.

    Attributes:
        call: its number. open: the ranks that have not answered.
        question: what ranks are asked with where they are. asked: what debuggers of ranks ask, to be answered.
        stopped: why they are interrupted, if they are. waited: those that did not heed it, so that operations were aborted.
    """

    def __init__(
        self, call: int, ranks: set[int], show: Show, marker: str | None, now: float
    ) -> None:
        self.call = call
        self.question: int | str = call
        self.open = set(ranks)
        self.asked = deque[Message]()
        self._pauses = 0
        self.replies: dict[int, Any] = {}
        self.stopped: Reason | None = None
        self.waited: tuple[int, ...] = ()
        self._stopped_at = self._interrupted_at = now
        self._show = show
        self._marker = marker
        self._markers_due = 2 * len(ranks) if marker else 0
        self._started = now
        self._first_error: float | None = None
        self._last_answer = now
        self._stall: Stall | None = None
        self._stall_reported_at = now
        self._progress = Progress(ranks, now)

    def take_event(self, event: Shown | Output | Answer | None, now: float) -> None:
        """Process an answer or output; answers and messages of other calls are ignored."""
        if isinstance(event, Answer | Message) and event.call != self.call:
            return
        if isinstance(event, Answer):
            self._take_answer(event.rank, event.value, now)
        elif isinstance(event, Output):
            self._take_output(event)
        elif isinstance(event, Message) and event.kind in (BREAKPOINT, INPUT):
            self.asked.append(event)
        elif event is not None:
            self._show(event)

    def _take_output(self, output: Output) -> None:
        """Show a line that a rank wrote below Python, without the end marker, which is counted."""
        text = output.text
        if self._marker is not None and text.endswith(self._marker):
            self._markers_due -= 1
            text = text.removesuffix(self._marker)
        if output.rank is not None and (text or not output.text):
            content = {"name": output.stream, "text": f"{text}\n"}
            self._show(Message(output.rank, "stream", content, self.call))

    def _take_answer(self, rank: int, reply: Any, now: float) -> None:
        """Record a rank's answer to the call, and when the first error came."""
        self.open.discard(rank)
        self._last_answer = now
        if isinstance(reply, RemoteError):
            reply = Reply(reply)
        self.replies[rank] = reply
        if isinstance(reply, Reply) and reply.error and self._first_error is None:
            self._first_error = now
        if not self.open and self._first_error is None:
            self._note_progress()

    def note_pause(self, seconds: float, now: float) -> None:
        """Count no time in which a rank stood at a breakpoint, and nothing that ranks have said of it."""
        self._started += seconds
        self._last_answer += seconds
        self._stall_reported_at += seconds
        if self._first_error is not None:
            self._first_error += seconds
        self._pauses += 1
        self.question = f"{self.call}.{self._pauses}"
        self._progress = Progress(self.open, now)

    def all_marked(self) -> bool:
        """Whether the end markers of all ranks have arrived on both streams."""
        return self._markers_due <= 0

    def end_call(self, lost: tuple[int, str] | None = None) -> Run:
        """Return the result of the call so far; ranks that have not answered count as stuck."""
        stuck = tuple(sorted(self.open))
        return Run(self.replies, self.stopped, self.waited, stuck, lost)

    def note_stop(self, reason: Reason, now: float) -> None:
        """Record why and when the call was stopped."""
        self.stopped, self._stopped_at = reason, now

    def next_step(self, now: float, timeout: float | None, aborts: bool) -> Step | None:
        """Return what to do now, or None: interrupt, then abort collective operations, then give up.

        Args:
            timeout: seconds after which the call is stopped.
            aborts: whether collective operations may be aborted.
        """
        if self.stopped is None:
            reason = self.reason_to_stop(now, timeout)
            if reason is not None:
                self.note_stop(reason, now)
            return "interrupt" if reason is not None else None
        late = now - self._stopped_at - PATIENCE[self.stopped]
        if late <= 0:
            return None
        if late > ABORT_PATIENCE or not aborts:
            return "give up"
        if not self.waited:
            self.waited, self._interrupted_at = tuple(sorted(self.open)), now
            return "abort"
        if now - self._interrupted_at > INTERRUPT_AGAIN:
            self._interrupted_at = now
            return "interrupt"
        return None

    def reason_to_stop(self, now: float, timeout: float | None) -> Reason | None:
        """Return why the call should be stopped now: timeout, error of one rank, or deadlock; else None."""
        if timeout is not None and now - self._started > timeout:
            return "timeout"
        if self._first_error is not None and now - self._first_error > GRACE:
            return "error"
        if self.replies and self.open and self._is_deadlock(now - self._last_answer):
            return "deadlock"
        return None

    # Ranks that wait

    def note_position(self, rank: int, report: Mapping[str, Any], now: float) -> None:
        """Record where a rank reports to be, and its computation time; reports of other calls are ignored."""
        if report["call"] == self.question:
            self._progress.note_position(rank, report, now)

    def idle_seconds(self, rank: int) -> float:
        """Return for how many seconds of its own clock a rank has stayed at one position without computing."""
        return self._progress.idle_seconds(rank)

    def tell_stall(self, now: float) -> None:
        """Report the ranks' positions if they hang, and when they continue."""
        stall = self._progress.find_stall(self.open, now, self.replies, WAITS)
        if stall is None or not is_hang(stall):
            self._note_progress()
        elif self._stall is None or is_due(self._stall, stall, now - self._stall_reported_at):
            self._stall, self._stall_reported_at = stall, now
            self._show(stall)

    def _note_progress(self) -> None:
        """Report that a stall is over, if there was one."""
        if self._stall is not None:
            waited = max(self._stall.since.values(), default=0.0)
            self._stall = None
            self._show(ProgressResumed(waited))

    def _is_deadlock(self, alone: float) -> bool:
        """Whether all running ranks wait in an operation in which the finished ones take no part.

        Args:
            alone: the seconds since the last rank finished; its end may not have reached the others yet.
        """

        def is_waiting(rank: int) -> bool:
            if rank not in self._progress.seen:
                return False
            place, patience = self._progress.seen[rank][0], STALL_SECONDS - 1
            waited = min(alone, self.idle_seconds(rank))
            # What runs in TensorFlow need not be a collective operation: it is given longer.
            return (place.in_horovod and waited >= patience) or (
                place.in_tensorflow and waited >= 2 * patience
            )

        return all(is_waiting(rank) for rank in self.open)
