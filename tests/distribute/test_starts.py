"""A start at which one rank cannot connect to another is tried once more; a failure of the user's own is not."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from jupyter_hvd.cli import run
from jupyter_hvd.launch.start_faults import (
    AGAIN,
    RefusedAtStartError,
    is_refused_at_start,
    start_again_once,
)
from jupyter_hvd.verify.exact import verification

#: What Gloo writes before it aborts.
WORDS = (
    "terminate called after throwing an instance of 'gloo::IoException'",
    "  what():  [/b/third_party/gloo/gloo/transport/tcp/pair.cc:799] connect [127.0.1.1]:18347: Connection refused",
)
#: Rank 1 aborts as Gloo does at its first starts.
ABORTS = f"""
import os, pathlib
starts = pathlib.Path("FOLDER/starts")
if os.environ.get("HOROVOD_RANK") == "1":
    with starts.open("a") as file:
        file.write("x")
    if len(starts.read_text()) <= TIMES:
        os.write(2, {chr(10).join(WORDS) + chr(10)!r}.encode())
        os.abort()
"""
RUNS = """
import importlib
hvd = importlib.import_module("horovod.tensorflow")
hvd.init()
print("size", hvd.size())
"""


def planted(folder: Path, times: int) -> str:
    return ABORTS.replace("FOLDER", str(folder)).replace("TIMES", str(times))


def count(folder: Path) -> int:
    return len((folder / "starts").read_text())


#: A rank's module that plants the abort before it joins Horovod.
RANK = """
from importlib import import_module

def main():
    PLANTED
    return import_module("jupyter_hvd.MODULE").main()

if __name__ == "__main__":
    raise SystemExit(main())
"""


def write_rank(folder: Path, times: int, module: str) -> str:
    """Write the module; the path on which it is found."""
    lines = planted(folder, times).strip().splitlines()
    text = RANK.replace("PLANTED", "\n    ".join(lines)).replace("MODULE", module)
    (folder / "planted_rank.py").write_text(text)
    return os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH"))))


@pytest.mark.slow
@pytest.mark.own_forks
@pytest.mark.parametrize("times", [1, 9])
def test_a_job_is_started_once_more(
    hvd: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    monkeypatch.setenv("PYTHONPATH", write_rank(tmp_path, times, "ranks.shared_rank"))
    monkeypatch.setattr(run, "RANK_MODULE", "planted_rank")
    (tmp_path / "job.py").write_text("print('came through')\n")
    done = hvd("run", "job.py", "-n", 2, "--no-log")
    assert count(tmp_path) == 2
    assert AGAIN in " ".join(done.stderr.split())
    if times == 1:
        assert done.returncode == 0, done.stderr
        assert "came through" in done.stdout
    else:
        assert done.returncode == 134
        assert "it aborted (signal 6)" in done.stderr


TRAINS = """
import numpy as np
import tensorflow as tf

print("begins")
tf.keras.utils.set_random_seed(1)
x = np.ones((8, 2), "float32")
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile("sgd", loss="mse")
model.fit(x, x[:, :1], batch_size=4, verbose=0)
"""


@pytest.mark.slow
@pytest.mark.own_forks
@pytest.mark.long
def test_a_verification_is_started_once_more(
    hvd: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", write_rank(tmp_path, 1, "verify.exact.rank"))
    monkeypatch.setattr(verification, "RANK_MODULE", "planted_rank")
    (tmp_path / "job.py").write_text(TRAINS)
    done = hvd("verify", "job.py", "-n", 2, "--batch", "global", timeout=500)
    assert count(tmp_path) == 2
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "program",
    [
        pytest.param(RUNS + ABORTS.replace("TIMES", "9"), id="after all have joined"),
        pytest.param(ABORTS.replace("TIMES", "0") + "1 / 0\n", id="an error of the user's"),
        pytest.param(
            ABORTS.replace("TIMES", "0") + "import os\nos.abort()\n", id="an abort of the user's"
        ),
    ],
)
def test_other_failures_are_not_tried_again(hvd: Any, tmp_path: Path, program: str) -> None:
    (tmp_path / "job.py").write_text(program.replace("FOLDER", str(tmp_path)))
    done = hvd("run", "job.py", "-n", 2, "--no-log")
    assert done.returncode != 0
    assert AGAIN not in " ".join(done.stderr.split())
    assert count(tmp_path) == 1


@pytest.mark.slow
@pytest.mark.own_forks
@pytest.mark.parametrize("times", [1, 9])
def test_a_notebooks_ranks_are_started_once_more(
    open_notebook: Callable[..., Any], tmp_path: Path, times: int
) -> None:
    path = write_rank(tmp_path, times, "ranks.notebook_rank")
    notebook = open_notebook(PYTHONPATH=path)
    notebook.good("from jupyter_hvd.notebook import rank_processes")
    notebook.good("rank_processes.LIVING = 'planted_rank'")
    result = notebook.run("%%distribute -n 2\nimport horovod.tensorflow as hvd\nprint(hvd.size())")
    assert AGAIN in result.shown
    assert count(tmp_path) == 2
    if times == 1:
        assert "2" in result.stdout, result.text
    else:
        assert "rank 1 did not start: it aborted" in result.traceback
        assert "Connection refused" in result.traceback


# Without ranks


def test_what_is_refused_at_the_start() -> None:
    joined, late = {"stage": "joined"}, {"stage": "joining Horovod"}
    assert is_refused_at_start([134, 1], [joined, late], 2, WORDS)
    assert not is_refused_at_start([134], [joined, joined], 2, WORDS), "all have joined"
    assert not is_refused_at_start([1], [late, late], 2, WORDS), "no rank has aborted"
    assert not is_refused_at_start([134], [late, late], 2, ["Connection refused"])


def test_a_start_is_tried_twice_at_most() -> None:
    told, tries = list[str](), list[int]()

    def start() -> str:
        tries.append(1)
        raise RefusedAtStartError("refused")

    with pytest.raises(RefusedAtStartError):
        start_again_once(start, told.append)
    assert len(tries) == 2
    assert told == [AGAIN]
    assert start_again_once(lambda: "started", told.append) == "started"
