"""Every request is answered, however the two sides' threads happen to run."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import zmq

from jupyter_hvd.launch.heartbeat import MESSAGES_VARIABLE
from jupyter_hvd.notebook.rank_messages import RankMessages
from jupyter_hvd.ranks.messages import ANSWER, READY, Messages, dump, open_socket

pytestmark = pytest.mark.slow

#: Rank 0 answers while the thread that sends and receives is held up before it asks rank 1.
HELD_UP = """
import time
from jupyter_hvd.ranks import remote

ranks = get_ipython().magics_manager.registry['HvdMagics'].session.held.cluster
messages = ranks._messages
call = messages.call

def held_up(rank, *request):
    if rank == 1:
        messages._messages.io_loop.add_callback(time.sleep, 0.05)
    return call(rank, *request)

messages.call = held_up
runs = [ranks.run(remote.status_row) for _ in range(10)]
messages.call = call
print(sum(len(run.replies) == 2 for run in runs), 'answered')
"""
MANY = """
runs = [ranks.run(remote.status_row) for _ in range(500)]
print(sum(len(run.replies) == 2 for run in runs), 'answered')
"""


@pytest.mark.long
def test_an_answer_between_two_requests(notebook: Any) -> None:
    notebook.good("%%distribute -n 2\n1")
    assert notebook.good(HELD_UP).stdout == "10 answered\n"
    assert notebook.good(MANY).stdout == "500 answered\n"


#: The rank prints much, in pieces, just before it answers.
FLOOD = """%%distribute
for k in range(20_000):
    print(k, flush=k % 1000 == 0)
"""


def test_output_precedes_the_answer(notebook: Any) -> None:
    printed = notebook.good(FLOOD).stdout
    assert printed.split() == [str(k) for k in range(20_000)]
    assert "19999" not in notebook.good("%%distribute\nprint('next')").stdout


# The kernel's end alone; a rank is played by the test


class Played:
    """A kernel's end of the messages, and a rank that answers as the test says.

    Attributes:
        shown: what the kernel shows. asked: the requests that the rank has got.
    """

    def __init__(self) -> None:
        self.shown: list[Any] = []
        self.asked: queue.SimpleQueue[Any] = queue.SimpleQueue()
        token = "0" * 64
        self.kernel = RankMessages("127.0.0.1", 0, token, self.shown.append)
        socket = open_socket(zmq.DEALER, token)
        socket.identity = b"0"
        socket.connect(f"tcp://{self.kernel.variables[MESSAGES_VARIABLE]}")
        self.rank = Messages(socket, token, lambda _, request: self.asked.put(request))
        self.rank.send_data(READY)
        self.wait(lambda: 0 in self.kernel.ready)

    def call(self, call: int, answers: list[Any]) -> Any:
        """Let the kernel call the rank; the request as the rank gets it."""
        self.kernel.call(0, call, dump((len, "")), answers.append)
        return self.asked.get(timeout=20)

    def answer(self, request: Any, value: Any) -> None:
        self.rank.send_data(ANSWER, dump(value), parent=request)

    def wait(self, condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + 20
        while not condition():
            assert time.monotonic() < deadline
            time.sleep(0.01)

    def close(self) -> None:
        self.rank.stop()  # type: ignore[no-untyped-call]
        self.kernel.close()


@pytest.fixture
def played() -> Iterator[Played]:
    played = Played()
    yield played
    played.close()


def test_an_answer_that_comes_twice_counts_once(
    played: Played, caplog: pytest.LogCaptureFixture
) -> None:
    answers: list[Any] = []
    request = played.call(1, answers)
    for value in ("first", "second"):
        played.answer(request, value)
    following = played.call(2, answers)
    played.answer(following, "third")
    played.wait(lambda: "third" in answers)
    assert answers == ["first", "third"]
    assert caplog.records == [], "the thread that receives has raised nothing"


def test_a_late_answer_is_not_that_of_the_next_call(played: Played) -> None:
    first: list[Any] = []
    second: list[Any] = []
    late = played.call(1, first)
    following = played.call(2, second)
    played.answer(following, "in time")
    played.answer(late, "late")
    played.wait(lambda: first and second)
    assert (first, second) == (["late"], ["in time"])


@pytest.mark.parametrize("parent", [None, {"header": {"msg_id": "unknown"}}])
def test_an_answer_to_nothing_is_dropped(
    played: Played, parent: Any, caplog: pytest.LogCaptureFixture
) -> None:
    answers: list[Any] = []
    played.rank.send_data(ANSWER, dump("stray"), parent=parent)
    played.answer(played.call(1, answers), "asked for")
    played.wait(lambda: answers)
    assert answers == ["asked for"]
    assert caplog.records == []


#: The answer names a class that the kernel does not have.
UNREADABLE = """
from jupyter_hvd.notebook.rank_messages import RankMessages, _read_answer
from jupyter_hvd.ranks import messages
answer = {"buffers": [b"cno_such_module\\nthing\\n."]}
print(_read_answer(answer).type)
"""


def test_an_answer_that_cannot_be_read_is_an_error(notebook: Any) -> None:
    assert notebook.good(UNREADABLE).stdout == "ModuleNotFoundError\n"
