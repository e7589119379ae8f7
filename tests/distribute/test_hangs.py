"""What is told of ranks that wait for one another: kinds of hang, with real ranks; then the words alone."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from jupyter_hvd.launch.diagnosis import Line, explain_stall, report_stall
from jupyter_hvd.launch.job_monitor import PAUSE, JobMonitor, is_due, is_hang
from jupyter_hvd.launch.progress import Position, Progress, Stall, position_of
from jupyter_hvd.source.lines import line_origins

#: A program that uses Horovod by another name runs as it is written.
HEAD = """import fcntl, importlib, os, time
import tensorflow as tf
hvd = importlib.import_module("horovod.tensorflow")
hvd.init()
one = tf.constant([1.0])
"""
#: Each with what must be told: of the rows of both ranks, and in words. FOLDER is the job's: other ranks work in copies of it.
KINDS: dict[str, tuple[str, str, str, str]] = {
    "a rank left the loop early": (
        'for batch in range(20 if hvd.rank() == 0 else 19):\n    hvd.allreduce(one, name=f"batch {batch}")\n'
        'hvd.broadcast(one, 0, name="end")\n',
        r"^0 .*line 7 +waits in allreduce of batch 19",
        r"^1 .*line 8 +waits in broadcast of end",
        "The ranks wait in different collective operations: rank 0 in allreduce of batch 19, rank 1 in broadcast of end",
    ),
    "a rank in an infinite loop": (
        'if hvd.rank() == 1:\n    while True:\n        one.shape\nhvd.allreduce(one, name="sum")\n',
        r"^0 .*line 9 +waits in allreduce of sum",
        r"^1 .*line [78] +computes",
        "It may still arrive, or this never ends on rank 1.",
    ),
    "a rank asleep": (
        'if hvd.rank() == 1:\n    time.sleep(600)\nhvd.allgather(one, name="all")\n',
        r"^0 .*line 8 +waits in allgather of all",
        r"^1 .*line 7 +sleeps",
        "Rank 1 sleeps at job.py, line 7: time.sleep(600)",
    ),
    "different collectives": (
        'if hvd.rank() == 0:\n    hvd.allreduce(one)\nelse:\n    hvd.allgather_object("x", name="objects")\n',
        r"^0 .*line 7 +waits in allreduce of a tensor of shape \(1,\)",
        r"^1 .*line 9 +waits in allgather_object of objects",
        "All ranks must call the same collective operations in the same order.",
    ),
    "a rank waits for a file": (
        'file = open("FOLDER/locked", "w")\nif hvd.rank() == 1:\n    hvd.allreduce(one, name="first")\n'
        'fcntl.flock(file, fcntl.LOCK_EX)\nif hvd.rank() == 0:\n    hvd.allreduce(one, name="first")\n'
        'hvd.allreduce(one, name="second")\n',
        r"^0 .*line 12 +waits in allreduce of second",
        r"^1 .*line 9 +waits for a lock of .*/locked",
        "Rank 1 waits for a lock of ",
    ),
    "an exception caught on one rank": (
        "try:\n    if hvd.rank() == 1:\n        raise ValueError('row 7 is empty')\n"
        "    hvd.allreduce(one, name='sum')\nexcept ValueError:\n    while True:\n        time.sleep(0.2)\n",
        r"^0 .*line 9 +waits in allreduce of sum",
        r"^1 .*line 1[12] ",
        "Rank 1 has caught 'ValueError: row 7 is empty' and is handling it",
    ),
    "a rank is stopped": (
        'if hvd.rank() == 1:\n    os.kill(os.getpid(), 19)\nhvd.allreduce(one, name="sum")\n',
        r"^0 .*line 8 +waits in allreduce of sum",
        r"^1 .*does not answer",
        "Rank 1 does not answer: its process is stopped, or busy below Python.",
    ),
}
TRAINS = """import os
import numpy as np
import tensorflow as tf

class Stuck(tf.keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == 3 and os.environ.get("HOROVOD_RANK") == "1":
            while True:
                pass

x = np.ones((64, 3), "float32")
model = tf.keras.Sequential([tf.keras.layers.Dense(1, use_bias=False)])
model.compile("sgd", loss="mse")
model.fit(x, x[:, :1], batch_size=4, epochs=2, verbose=0, callbacks=[Stuck()])
"""


@contextmanager
def running(folder: Path, text: str, name: str = "job.py") -> Iterator[subprocess.Popen[str]]:
    (folder / name).write_text(text)
    process = subprocess.Popen(
        [sys.executable, "-m", "jupyter_hvd", "run", name, "-n", "2", "--log", "logs"],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


def told(process: subprocess.Popen[str], word: str, within: float = 180) -> str:
    """What a job says until a word comes."""
    assert process.stderr is not None
    said = ""
    end = threading.Timer(
        within, process.terminate
    )  # a job that says no more would be read for ever
    end.start()
    while word not in said and (line := process.stderr.readline()):
        said += line
    end.cancel()
    return said


#: Whose words other tests show, too, of notebooks and of the report alone.
OTHERS = ("a rank in an infinite loop", "a rank asleep", "an exception caught on one rank")


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind",
    [pytest.param(k, marks=[pytest.mark.thorough] if k in OTHERS else []) for k in KINDS],
)
@pytest.mark.long
def test_hang_of_a_job(tmp_path: Path, kind: str) -> None:
    body, zero, one, meaning = KINDS[kind]
    with running(tmp_path, HEAD + body.replace("FOLDER", str(tmp_path))) as process:
        said = told(process, meaning)
    assert "no progress for" in said, said
    assert re.search(zero, said, re.MULTILINE), said
    assert re.search(one, said, re.MULTILINE), said
    assert meaning in said


@pytest.mark.slow
@pytest.mark.long
def test_a_converted_program_is_reported_in_its_own_lines(tmp_path: Path) -> None:
    with running(tmp_path, TRAINS) as process:
        said = told(process, "this never ends on rank 1.")
    assert re.search(r"^0 .*job\.py, line 14 +waits in TensorFlow", said, re.M), said
    assert re.search(r"^1 .*job\.py, line [89] +computes", said, re.M), said
    assert re.search(r"^Rank 1 computes at job\.py, line [89]: (while True:|pass)", said, re.M)
    assert "Rank 0 waits for rank 1." in said
    (kept,) = (tmp_path / "logs").glob("*/stalls.txt")
    assert "Rank 0 waits for rank 1." in kept.read_text()


@pytest.mark.slow
@pytest.mark.long
def test_a_notebook_is_reported_by_its_cells(tmp_path: Path) -> None:
    cells = [
        new_markdown_cell("# Sums"),
        new_code_cell(HEAD),
        new_code_cell("def add():\n    return hvd.allreduce(one, name='sum')"),
        new_code_cell("if hvd.rank() == 1:\n    time.sleep(600)\nadd()"),
    ]
    notebook = nbformat.writes(new_notebook(cells=cells))
    with running(tmp_path, notebook, "job.ipynb") as process:
        said = told(process, "time.sleep(600)")
    assert re.search(r"^0 .*job\.ipynb, cell 2, line 2 +waits in allreduce of sum", said, re.M), (
        said
    )
    assert re.search(r"^1 .*job\.ipynb, cell 3, line 2 +sleeps", said, re.M), said


@pytest.mark.slow
@pytest.mark.long
def test_verify_says_where_ranks_are_stuck(hvd: Any, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(TRAINS)
    done = hvd("verify", "job.py", "-n", 2, "--timeout", 30, "--json", timeout=500)
    assert done.returncode == 1
    checks = {check["check"]: check for check in json.loads(done.stdout)["checks"]}
    stuck = checks["2 ranks: ending"]
    assert stuck["status"] == "fail"
    assert "ranks wait for one another" in stuck["detail"]
    # The lines are those of the scaled program.
    assert hvd("convert", "job.py").returncode == 0
    lines = (tmp_path / "job_hvd.py").read_text().splitlines()
    loop = lines.index("            while True:") + 1
    fit = next(number for number, line in enumerate(lines, 1) if line.startswith("model.fit("))
    # On a busy machine a loop that gets no processor looks as if it waited.
    one = rf"^1 .*job_hvd\.py, line ({loop}|{loop + 1}) +(computes|waits )"
    assert re.search(one, stuck["detail"], re.MULTILINE), stuck
    zero = rf"^0 .*job_hvd\.py, line {fit} +waits in TensorFlow"
    assert re.search(zero, stuck["detail"], re.MULTILINE), stuck
    assert "Rank 0 waits for rank 1." in stuck["detail"]


def asked_on_control_channel(notebook: Any) -> list[str]:
    """Where the ranks are while a cell runs."""
    client = notebook.client
    client.control_channel.send(client.session.msg("hvd_look_request"))
    answer = client.get_control_msg(timeout=20)
    assert answer["msg_type"] == "hvd_look_reply"
    return [row["line"] for row in answer["content"]["ranks"]]


ENDS_SLOWLY = """\
import time

class Kept:
    def __del__(self):
        time.sleep(20)

kept = Kept()
print("done")
"""


@pytest.mark.slow
@pytest.mark.own_forks
@pytest.mark.long
def test_a_rank_that_takes_long_to_end_is_no_hang(hvd: Any, tmp_path: Path) -> None:
    """What a program leaves is destroyed when no thread of it answers any more."""
    (tmp_path / "slow.py").write_text(ENDS_SLOWLY)
    done = hvd("run", "slow.py", "-n", 2, "--batch", "global", "--no-log")
    assert done.returncode == 0
    assert "done" in done.stdout
    assert "no progress" not in done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.long
def test_where_living_ranks_are(open_notebook: Callable[..., Any]) -> None:
    notebook = open_notebook()
    assert "there are no ranks" in notebook.run("%hvd where").traceback
    notebook.good("%%distribute -n 2\n1")
    rows = notebook.good("%hvd where").stdout.splitlines()
    assert rows[0].split() == ["rank", "host", "at", "does", "for"]
    assert all(re.search("outside your code +waits for a cell", row) for row in rows[1:])
    message = notebook.begin("%%distribute\nimport time\nwhile True:\n    time.sleep(0.1)")
    time.sleep(2)
    rows = asked_on_control_channel(notebook)
    assert len(rows) == 2
    assert all(re.search(r"In\[\d+\], line [34]$", row) for row in rows), rows
    notebook.interrupt()
    notebook.finish(message)
    assert len(notebook.good("%hvd where").stdout.splitlines()) == 3


# The words alone


def at(line: int, **more: Any) -> Position:
    return Position(("", line), "/x/horovod/mpi_ops.py" if "collective" in more else "x", **more)


def locate(place: tuple[str, int]) -> Line | None:
    return Line(f"line {place[1]}", "text")


def test_a_rank_that_has_finished() -> None:
    stall = Stall((0,), {0: at(3, collective="allreduce of x")}, {0: 12.0}, (1,))
    said = report_stall(stall, locate, {0: "a", 1: "b"}).lines
    assert said[0] == "no progress for 12 s:"
    assert said[3].split() == ["1", "b", "has", "finished"]
    assert "Rank 1 has finished, so it takes part in no further operation." in said
    assert is_hang(stall)


def test_what_is_no_hang() -> None:
    joining = Position(("", 1), "/lib/horovod/common/basics.py")
    assert not is_hang(Stall((0,), {0: joining, 1: at(1)}, {0: 20.0}))
    sleeping = {0: at(1, doing="sleeps"), 1: at(2)}
    assert not is_hang(Stall((0,), sleeping, {0: 100.0}))
    assert not is_hang(Stall((0, 1), sleeping, {0: 12.0, 1: 12.0}))
    assert is_hang(Stall((0, 1), sleeping, {0: 40.0, 1: 40.0}))


def test_a_rank_that_is_found_to_wait_is_reported_at_once() -> None:
    """On a busy machine it seems to compute at first, and the report says that it may still come."""
    places = {0: at(7, collective="allreduce of x"), 1: at(8, collective="broadcast of y")}
    before = Stall((0,), places, {0: 10.0})
    assert not is_due(before, Stall((0,), places, {0: 70.0}), 2 * PAUSE)
    assert is_due(before, Stall((0, 1), places, {0: 20.0, 1: 10.0}), 10.0)
    assert is_due(before, Stall((0, 1), {0: places[0]}, {0: 20.0, 1: 10.0}), 10.0)
    moved = Stall((0, 1), {0: at(9, collective="allreduce of x"), 1: places[1]}, {0: 20.0, 1: 10.0})
    assert not is_due(before, moved, 10.0)
    assert is_due(before, moved, PAUSE)


def test_a_rank_that_stops_while_another_waits_does_not_answer() -> None:
    """It was heard a second after the other had begun to wait, and not since."""
    told = {"inside": "x", "cpu": 0.0, "cell": ("", 1)}
    progress = Progress((0, 1), 0.0)
    for second in range(11):
        progress.note_position(
            0, {**told, "inside": "/x/horovod/mpi_ops.py", "time": float(second)}, second
        )
    progress.note_position(1, {**told, "time": 1.0}, 1.0)
    stall = progress.find_stall((0, 1), 10.0, seconds=10.0)
    assert stall is not None
    assert is_hang(stall)
    assert "Rank 1 does not answer" in " ".join(explain_stall(stall, locate))


@pytest.mark.parametrize(
    ("before", "after", "origins"),
    [
        ("a\nb\nc", "a\nb\nc", (1, 2, 3)),
        ("a\nb\nc", "x\na\nb\ny\nc", (1, 1, 2, 3, 3)),
        ("a\nb\nc", "a\nB1\nB2\nc", (1, 2, 2, 3)),
        ("a", "a\nx", (1, 1)),
        ("a\nb\nc", "a\nc", (1, 3)),
        ("", "x", (1,)),
    ],
)
def test_lines_of_a_conversion(before: str, after: str, origins: tuple[int, ...]) -> None:
    assert line_origins(before, after) == origins


def test_what_a_rank_looks_at_may_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """A property of the user's, in the thread of the lifeline."""
    from jupyter_hvd.launch import heartbeat

    def fails() -> None:
        raise ValueError("no shape")

    monkeypatch.setattr(heartbeat, "current_location", fails)
    assert position_of({"call": 1, "cpu": 0.0, **heartbeat._position_or_unknown()}).cell is None


def test_a_rank_that_does_not_answer_is_asked_once(tmp_path: Path) -> None:
    """Questions that nobody reads would end its connection, and with that the rank."""
    asked: list[str] = []

    lines: Any = SimpleNamespace(
        members={name: SimpleNamespace(description={}) for name in ("rank 0", "rank 1")},
        gone={},
        send=lambda name, _: asked.append(name),
    )
    watchman = JobMonitor(2, tmp_path, lambda *_: None, 0.0)
    for second in range(5):
        watchman.check_ranks(lines, float(second))
    assert asked == ["rank 0", "rank 1"]
