"""`breakpoint()` in a cell on ranks: pdb on one rank, by the kernel's input request; real kernels and real ranks."""

from __future__ import annotations

import queue
import time
from collections.abc import Callable, Sequence
from typing import Any

import psutil
import pytest

from jupyter_hvd.launch.diagnosis import Line, activity_of, explain_breakpoint
from jupyter_hvd.launch.job_monitor import is_hang
from jupyter_hvd.launch.progress import Position, Stall
from jupyter_hvd.notebook.monitor import CallMonitor, Message
from jupyter_hvd.ranks.messages import INPUT
from jupyter_hvd.ranks.sent_cells import SentCell

slow = pytest.mark.slow
PATIENCE = 240

LOOP = """%%distribute -n 2
import tensorflow as tf
import horovod.tensorflow as hvd

def twice(x):
    doubled = x + x
    return doubled

total = 0
for k in range(3):
    if k == 1:
        breakpoint()
    total += twice(k)
hvd.allreduce(tf.constant(1.0), name="loss")
print("total", total)
"""


class Debugged:
    """A cell that is asked for input: what it shows until each question."""

    def __init__(self, notebook: Any, source: str) -> None:
        self._notebook = notebook
        self.message = notebook.client.execute(source, allow_stdin=True)
        self._said = 0

    def until_asked(self) -> str:
        """Wait for the next question; return its prompt."""
        started = time.monotonic()
        while time.monotonic() - started < PATIENCE:
            try:
                asked = self._notebook.client.get_stdin_msg(timeout=1)
            except queue.Empty:
                continue
            assert asked["msg_type"] == "input_request"
            prompt: str = asked["content"]["prompt"]
            return prompt
        raise AssertionError("the cell does not ask")

    def type(self, line: str) -> None:
        self._notebook.client.input(line)

    def finish(self) -> Any:
        return self._notebook.finish(self.message)


def debug(notebook: Any, source: str, lines: Sequence[str]) -> Any:
    """Run a cell, and type lines in its debugger."""
    cell = Debugged(notebook, source)
    for line in lines:
        assert cell.until_asked() == "(Pdb) "
        cell.type(line)
    return cell.finish()


@pytest.fixture(scope="module")
def ranks(open_notebook: Callable[..., Any]) -> Any:
    notebook = open_notebook()
    notebook.good("%%distribute -n 2\nimport horovod.tensorflow as hvd\nhvd.size()")
    return notebook


@slow
def test_commands_of_the_debugger(ranks: Any) -> None:
    commands = ["p total, k", "w", "s", "s", "n", "p x, doubled", "u", "p k", "d", "l", "c"]
    result = debug(ranks, LOOP, commands)
    assert result.error is None, result.text
    number = result.shown.partition("breakpoint (In[")[2].partition("]")[0]
    assert f"rank 0 stands at a breakpoint (In[{number}], line 12)" in result.shown
    said = result.stdout
    assert f"> In[{number}], line 13\n->     total += twice(k)" in said or (
        f"> In[{number}], line 12\n->         breakpoint()" in said  # from Python 3.13 on
    )
    assert "(0, 1)\n" in said
    assert f"In[{number}], line 5, in twice\n-> def twice(x):" in said
    assert f"In[{number}], line 6, in twice\n->     doubled = x + x" in said
    assert "(1, 2)\n" in said
    assert "  7  ->\t    return doubled\n" in said
    assert "IPython" not in said, "what runs the cell is not shown"
    assert "total 6" in said


@slow
def test_a_statement_after_the_breakpoint(ranks: Any) -> None:
    """IPython runs each statement of a cell by itself; the debugger goes from one to the next, and ends with the last."""
    cell = "%%distribute\na = 1\nbreakpoint()\nb = a + 1\nc = b + 1"
    result = debug(ranks, cell, ["n", "p a", "n", "p b", "n", "n"][:-1])
    assert result.error is None, result.text
    assert "line 4\n-> b = a + 1" in result.stdout
    assert "line 5\n-> c = b + 1" in result.stdout
    assert "__return__" not in ranks.good("%%rank 0\nprint([*globals()])").stdout


@slow
def test_pdb_set_trace_on_the_chosen_rank(ranks: Any) -> None:
    assert ranks.good("%hvd debug").stdout == "breakpoint() stops on rank 0\n"
    assert ranks.good("%hvd debug 1").stdout == "breakpoint() stops on rank 1\n"
    try:
        cell = "%%distribute\nimport pdb\nown = hvd.rank()\npdb.set_trace()\nown"
        result = debug(ranks, cell, ["p 'own', own", "c"])
        assert "('own', 1)" in result.stdout
        # A cell that runs on other ranks stops on the first of them.
        result = debug(ranks, "%%rank 0\nbreakpoint()\n1", ["p 'own', own", "c"])
        assert "('own', 0)" in result.stdout
    finally:
        ranks.good("%hvd debug 0")


@slow
@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("%hvd debug 2", "there is no rank 2: this notebook has 0 to 1"),
        ("%hvd debug one", "which rank?"),
        ("%hvd debug 0 1", "which rank?"),
    ],
)
def test_a_rank_that_is_none(ranks: Any, line: str, words: str) -> None:
    assert words in ranks.run(line).text


@slow
def test_quitting_ends_the_cell_with_one_line(ranks: Any) -> None:
    result = debug(ranks, LOOP, ["q"])
    assert result.error is not None
    assert result.error["ename"] == "BdbQuit"
    line, *rest = result.error["traceback"]
    assert line.startswith("the cell was ended in the debugger of rank 0 at In[")
    assert not any("File" in each or "Traceback" in each for each in rest)
    assert (
        "size 2.0"
        in ranks.good(
            "%%distribute\nimport tensorflow as tf\nprint('size', float(hvd.allreduce(tf.constant(1.0), op=hvd.Sum)))"
        ).stdout
    )


@slow
def test_an_interrupt_ends_the_debugger(ranks: Any) -> None:
    cell = Debugged(ranks, LOOP)
    cell.until_asked()
    ranks.interrupt()
    result = cell.finish()
    assert "KeyboardInterrupt: interrupted" in _plain(result.traceback)
    assert ", in the debugger" in result.traceback
    assert "2" in ranks.good("%%distribute\nprint(hvd.size())").stdout


def _plain(text: str) -> str:
    return text.replace("\x1b[31m", "").replace("\x1b[0m", "")


@slow
def test_a_front_end_without_input(ranks: Any) -> None:
    """As nbconvert runs a notebook: each cell says so once, and goes on."""
    result = ranks.good(
        "%%distribute\nfor k in range(3):\n    breakpoint()\nprint('came through', k)"
    )
    assert "came through 2" in result.stdout
    assert result.shown.count("is passed over") == 1
    assert "line 3 on rank 0 is passed over: this front end takes no input." in result.shown


@slow
def test_a_question_that_nobody_answers(ranks: Any) -> None:
    ranks.good("from jupyter_hvd.notebook import breakpoints\nbreakpoints.ANSWER_WITHIN = 2.0")
    try:
        cell = Debugged(ranks, "%%distribute\nfor k in range(3):\n    breakpoint()\nprint('on', k)")
        cell.until_asked()
        result = cell.finish()
        assert result.error is None, result.text
        assert "on 2" in result.stdout
        assert result.shown.count("nobody has answered the debugger of rank 0") == 1
    finally:
        ranks.good("breakpoints.ANSWER_WITHIN = 3600.0")


@slow
def test_a_rank_that_is_killed_at_a_breakpoint(open_notebook: Callable[..., Any]) -> None:
    notebook = open_notebook()
    notebook.good("%%distribute -n 2\n1")
    pid = notebook.rank_pids()[0]
    cell = Debugged(notebook, LOOP)
    cell.until_asked()
    psutil.Process(pid).kill()
    result = cell.finish()
    assert "RankLost" in result.traceback
    assert (
        "0 2"
        in notebook.good(
            "%%distribute\nimport horovod.tensorflow as h\nprint(h.rank(), h.size())"
        ).stdout
    )


TRACED = """%%distribute
import tensorflow as tf

@tf.function
def step(x):
    breakpoint()
    return x * 2

print(float(step(tf.constant(2.0))))
"""


@slow
def test_compiled_functions_are_explained(ranks: Any) -> None:
    result = ranks.good(TRACED)
    assert "4.0" in result.stdout
    assert "is passed over: TensorFlow compiles the function around it" in result.shown
    eager = TRACED.replace("@tf", "tf.config.run_functions_eagerly(True)\n@tf")
    result = debug(ranks, eager, ["n", "p float(x)", "c"])
    assert "2.0\n" in result.stdout
    assert "In[" in result.stdout
    ranks.good("%%rank all\ntf.config.run_functions_eagerly(False)")


def looked_at(notebook: Any) -> dict[str, Any]:
    client = notebook.client
    client.control_channel.send(client.session.msg("hvd_look_request"))
    answer = client.get_control_msg(timeout=20)
    content: dict[str, Any] = answer["content"]
    return content


@slow
@pytest.mark.long
def test_others_wait_for_a_rank_at_a_breakpoint(ranks: Any) -> None:
    """No stall, no deadlock, no timeout, for as long as it stands there; and the panel says why they wait."""
    cell = Debugged(ranks, LOOP.replace("-n 2", "-n 2 --timeout 8"))
    cell.until_asked()
    time.sleep(14)
    look = looked_at(ranks)
    rows = look["ranks"]
    assert rows[0]["does"] == "stands at a breakpoint"
    assert rows[1]["does"] == "waits in allreduce of loss"
    (words,) = look["words"]
    assert words.startswith("Rank 1 waits for rank 0, which stands at a breakpoint (In[")
    cell.type("p k")
    cell.until_asked()
    cell.type("c")
    result = cell.finish()
    assert result.error is None, result.text
    assert "total 6" in result.stdout
    assert "no progress" not in result.text


TRAINS = """%%distribute
class Stop(tf.keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 1:
            breakpoint()

history = model.fit(x, x[:, :1], batch_size=8, epochs=1, verbose=0, callbacks=[Stop()])
"""


@slow
@pytest.mark.long
@pytest.mark.parametrize("batch", ["per-rank", "global"])
def test_in_training_that_is_converted(open_notebook: Callable[..., Any], batch: str) -> None:
    """The lines are those of the cell, although a conversion adds some; training goes on afterwards."""
    notebook = open_notebook()
    notebook.good("import numpy as np\nimport tensorflow as tf\nx = np.ones((64, 3), 'float32')")
    notebook.good(
        "model = tf.keras.Sequential([tf.keras.layers.Dense(1)])\nmodel.compile('sgd', loss='mse')"
    )
    source = TRAINS.replace("%%distribute", f"%%distribute -n 2 --batch {batch}")
    result = debug(notebook, source, ["p batch", "w", "c"])
    assert result.error is None, result.text
    assert "line 5" in result.stdout
    assert "breakpoint()" in result.stdout
    assert "history = model.fit(x, x[:, :1], batch_size=8, epochs=1" in result.stdout
    assert "loss" in notebook.good("print(history.history)").stdout


# Without ranks


def test_a_rank_at_a_breakpoint_is_no_hang() -> None:
    def locate(place: tuple[str, int]) -> Line:
        return Line(f"In[3], line {place[1]}")

    stands = Position(("", 4), "/jupyter_hvd/ranks/debugger.py", at_breakpoint=True)
    waits = Position(("", 9), "/x/horovod/mpi_ops.py", collective="allreduce of loss")
    stall = Stall((0, 1, 2), {0: stands, 1: waits, 2: waits}, {0: 90.0, 1: 90.0, 2: 90.0})
    assert not is_hang(stall)
    assert activity_of(0, stall) == "stands at a breakpoint"
    assert explain_breakpoint(stall, locate) == [
        "Ranks 1 and 2 wait for rank 0, which stands at a breakpoint (In[3], line 4)."
    ]
    alone = Stall((), {0: stands}, {})
    assert explain_breakpoint(alone, locate) == ["Rank 0 stands at a breakpoint (In[3], line 4)."]
    assert explain_breakpoint(Stall((1,), {1: waits}), locate) == []


def test_time_at_a_breakpoint_does_not_count() -> None:
    waiting = CallMonitor(7, {0, 1}, lambda _: None, None, now=0.0)
    waiting.take_event(Message(0, INPUT, {"prompt": "(Pdb) "}, 7), 1.0)
    assert len(waiting.asked) == 1
    before = waiting.question
    waiting.note_pause(100.0, 101.0)
    assert waiting.reason_to_stop(103.0, 5.0) is None
    assert waiting.reason_to_stop(106.0, 5.0) == "timeout"
    # What a rank has said before the pause, and what comes late, says nothing about the time after it.
    told = {"call": before, "cpu": 0.0, "cell": None, "inside": "x", "time": 1.0}
    waiting.note_position(1, told, 101.0)
    waiting.note_position(1, {**told, "time": 100.0}, 101.0)
    assert waiting.idle_seconds(1) == 0


def test_lines_of_a_cell() -> None:
    cell = SentCell(3, "a\nb\nc", "x\na\nb\ny\nc")
    assert [cell.user_line(line) for line in range(1, 6)] == [1, 1, 2, 3, 3]
    assert [cell.sent_line(line) for line in (1, 2, 3)] == [1, 3, 4]
    assert cell.line_name(5) == "In[3], line 3"
    assert (cell.source_line(3), cell.source_line(9)) == ("c", "")
