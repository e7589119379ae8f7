"""When a call that goes on is stopped: told places and clocks in, a reason out; no process is started here."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_hvd.launch.progress import Stall
from jupyter_hvd.notebook.monitor import Answer, CallMonitor, ProgressResumed, Run
from jupyter_hvd.notebook.reports import failure_of
from jupyter_hvd.ranks.reply import Frame, RemoteError, Reply

ALLREDUCE = {"cell": ["<In[3]#1>", 2], "inside": "/site-packages/horovod/tensorflow/mpi_ops.py"}
LOOP = {"cell": ["<In[3]#1>", 5], "inside": "<In[3]#1>"}


class Scene:
    """Two ranks that say once a second where they are, and how much of that second they computed."""

    def __init__(self) -> None:
        self.shown: list[Any] = []
        self.waiting = CallMonitor(7, {0, 1}, self.shown.append, None, now=0.0)
        self.now = 0.0
        self.cpu = [0.0, 0.0]
        self.queued = 0.0

    def play(
        self,
        seconds: int,
        *places: dict[str, Any] | None,
        busy: float = 0.0,
        queued: float = 0.0,
    ) -> str | None:
        """Let some seconds pass with the ranks in some places, None for one that is silent; why it was stopped."""
        for _ in range(seconds):
            self.now += 1
            self.queued += queued
            for rank, place in enumerate(places):
                self.cpu[rank] += busy
                if place is not None and rank in self.waiting.open:
                    told = {"call": 7, "cpu": self.cpu[rank], "time": 1000 + self.now, **place}
                    told["queued"] = self.queued
                    self.waiting.note_position(rank, told, self.now)
            self.waiting.tell_stall(self.now)
            reason = self.waiting.reason_to_stop(self.now, None)
            if reason is not None:
                return reason
        return None

    def answer(self, rank: int) -> None:
        self.waiting.take_event(Answer(rank, Reply(), call=7), self.now)


def test_what_was_reported_in_an_earlier_call_does_not_count() -> None:
    scene = Scene()
    for clock in (10.0, 500.0):
        scene.waiting.note_position(0, {"call": 6, "cpu": 0.0, "time": clock, **LOOP}, 1.0)
    assert scene.waiting.idle_seconds(0) == 0


def test_an_answer_to_an_earlier_call_does_not_count() -> None:
    scene = Scene()
    scene.waiting.take_event(Answer(0, Reply(), call=6), scene.now)
    assert scene.waiting.open == {0, 1}


def test_ranks_that_heed_no_interrupt_are_aborted_and_given_up() -> None:
    waiting = CallMonitor(7, {0, 1}, lambda _: None, None, now=0.0)
    steps = [(now / 2, waiting.next_step(now / 2, 1.0, aborts=True)) for now in range(25)]
    assert [step for step in steps if step[1] is not None] == [
        (1.5, "interrupt"),
        (3.5, "abort"),
        *((now, "interrupt") for now in (5.0, 6.5, 8.0)),
        *((now / 2, "give up") for now in range(17, 25)),
    ]
    assert waiting.end_call() == Run({}, "timeout", waited=(0, 1), stuck=(0, 1))


def test_without_aborts_ranks_are_given_up_at_once() -> None:
    waiting = CallMonitor(7, {0}, lambda _: None, None, now=0.0)
    waiting.note_stop("interrupt", 0.0)
    assert waiting.next_step(1.0, None, aborts=False) is None
    assert waiting.next_step(2.0, None, aborts=False) == "give up"
    assert waiting.waited == ()


def test_a_rank_in_a_collective_that_the_others_have_left_waits_for_ever() -> None:
    scene = Scene()
    assert scene.play(20, ALLREDUCE, LOOP) is None  # rank 1 may still come
    scene.answer(1)
    assert scene.play(3, ALLREDUCE, None) is None  # what rank 1 did last may be on its way
    assert scene.play(1, ALLREDUCE, None) == "deadlock"


def test_a_rank_that_waits_for_a_processor_waits_for_nobody() -> None:
    scene = Scene()
    scene.answer(1)
    assert scene.play(60, ALLREDUCE, None, queued=1.5) is None
    assert scene.play(10, ALLREDUCE, None, queued=0.5) == "deadlock"  # it hears, half of the time


@pytest.mark.parametrize("busy", [0.5, 1.0])
def test_a_rank_that_computes_is_left_alone(busy: float) -> None:
    scene = Scene()
    scene.answer(1)
    assert scene.play(60, ALLREDUCE, None, busy=busy) is None
    assert scene.shown == []


def test_ranks_that_wait_or_are_silent_are_reported_once() -> None:
    scene = Scene()
    assert scene.play(30, ALLREDUCE, None) is None
    (stall,) = scene.shown[-1:]
    assert len(scene.shown) <= 2, "rank 0 alone at first, perhaps"
    assert isinstance(stall, Stall)
    assert set(stall.waiting) <= {0, 1}
    assert list(stall.places) == [0]
    assert stall.places[0].in_horovod


def test_a_report_is_taken_back_when_the_ranks_go_on() -> None:
    """As in a first `fit`, where one rank compiles for longer than the other."""
    scene = Scene()
    scene.play(5, ALLREDUCE, None)
    assert scene.shown == [], "a few seconds are no hang"
    scene.play(20, ALLREDUCE, None)
    scene.play(2, LOOP, LOOP, busy=1.0)
    stall, went_on = scene.shown
    assert isinstance(stall, Stall)
    assert isinstance(went_on, ProgressResumed)
    assert went_on.seconds >= 10


def test_a_report_is_taken_back_when_the_cell_ends_well() -> None:
    scene = Scene()
    scene.play(20, ALLREDUCE, None)
    scene.answer(0)
    assert not isinstance(scene.shown[-1], ProgressResumed)
    scene.answer(1)
    assert isinstance(scene.shown[-1], ProgressResumed)


def test_a_deadlock_names_who_waits() -> None:
    for run in (
        Run({0: Reply(), 1: Reply()}, "deadlock", waited=(1,)),
        Run({0: Reply()}, "deadlock", waited=(1,), stuck=(1,)),
    ):
        failure = failure_of(run, {})
        assert failure is not None
        assert failure.message.startswith("rank 0 finished the cell while rank 1 still waits")


def test_ranks_that_fail_equally_are_in_step() -> None:
    def failed(line: int) -> Reply:
        return Reply(RemoteError("ValueError", "no", (Frame("<In[3]#1>", line, "f", ""),)))

    assert Run({0: failed(2), 1: failed(2)}).in_step
    assert not Run({0: failed(2), 1: failed(3)}).in_step
    assert not Run({0: failed(2), 1: Reply()}).in_step
    assert not Run({0: failed(2), 1: failed(2)}, stopped="interrupt").in_step
