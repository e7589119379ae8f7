"""Standard streams that are closed or full, files that may not grow, and a working folder that is gone: never a traceback."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

FIT = """import tensorflow as tf

model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile('sgd', 'mse')
model.fit(x, y)
"""
#: Commands that print something.
PRINTING = (
    "convert train.py --diff",
    "rule",
    "jobs",
    "job plain.py --slurm -n 2 --force",
    "--help",
)
#: They print by the same functions: for `make test-thorough`.
EQUAL_OUTPUT = (
    "convert train.py --json",
    "rule HVD601",
    "--version",
    "run --help",
    "run plain.py -n 1",
)
#: Commands that start processes of their own.
VERIFY = "verify plain.py -n 2 --batch global"
RUN = "run plain.py -n 1 --no-log"
RUNNING = (RUN, VERIFY, "doctor")
#: Of these, those that print on standard output here: there are no jobs, and `doctor` prints as `rule` does, after five seconds.
FULL = tuple(c for c in (*PRINTING, *EQUAL_OUTPUT, *RUNNING) if c not in ("jobs", "doctor"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(FIT)
    (tmp_path / "plain.py").write_text("print('hello')\n")
    return tmp_path


def shell(folder: Path, line: str, *, buffered: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a line in which HVD stands for our command."""
    command = f"{shlex.quote(sys.executable)} -m jupyter_hvd"
    environment = {**os.environ, "PYTHONUNBUFFERED": "" if buffered else "1"}
    return subprocess.run(
        ["bash", "-c", line.replace("HVD ", f"{command} ")],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def case(command: str, *more: object) -> object:
    """A command as a case; one that starts processes takes long."""
    marks = [
        *([pytest.mark.slow] if command in RUNNING else []),
        *([pytest.mark.thorough] if command in EQUAL_OUTPUT else []),
    ]
    return pytest.param(command, *more, id=" ".join(map(str, (command, *more))), marks=marks)


def each(*commands: str) -> list[object]:
    return [case(command) for command in commands]


@pytest.mark.parametrize("command", each(*PRINTING, *EQUAL_OUTPUT, RUN))
def test_standard_output_is_closed(folder: Path, command: str) -> None:
    """Standard output is closed: what is asked for is done"""
    done = shell(folder, f"HVD {command} 1>&-")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    assert "Traceback" not in done.stderr


def test_all_streams_are_closed(folder: Path) -> None:
    """All standard streams are closed: no file gets the number of one"""
    done = shell(folder, "HVD convert train.py --diff 0<&- 1>&- 2>&-")
    assert done.returncode == 0
    assert "horovod" in (folder / "train_hvd.py").read_text()
    assert "---" not in (folder / "train_hvd.py").read_text()


@pytest.mark.parametrize(
    ("command", "buffered"),
    [
        *(case(command, True) for command in FULL),
        case("convert train.py --diff", False),
        case("rule", False),
    ],
)
def test_standard_output_is_full(folder: Path, command: str, buffered: bool) -> None:
    """Standard output is a full disk: one line, and an exit code that says so"""
    done = shell(folder, f"HVD {command} >/dev/full", buffered=buffered)
    assert done.returncode == 2, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1] == (
        "jupyter hvd: the output cannot be written (No space left on device)"
    )


@pytest.mark.parametrize("buffered", [True, False])
@pytest.mark.parametrize("command", ["convert train.py", "convert missing.py"])
def test_standard_error_is_full(folder: Path, command: str, buffered: bool) -> None:
    """Standard error is a full disk: an exit code that says so"""
    done = shell(folder, f"HVD {command} 2>/dev/full", buffered=buffered)
    assert (done.returncode, done.stdout) == (2, "")


@pytest.mark.parametrize(
    "command", each("convert train.py", "job plain.py --slurm -n 2 -o new", "rule", *RUNNING)
)
def test_files_may_not_grow(folder: Path, command: str) -> None:
    """`ulimit -f 0`: no file can be written"""
    done = shell(folder, f"ulimit -f 0; HVD {command}")
    assert "Traceback" not in done.stderr
    assert done.returncode == (0 if command == "rule" else done.returncode)
    if command.startswith(("convert", "job", "run", "verify")):
        assert done.returncode == 2
        assert "cannot be written" in done.stderr or "No usable temporary" in done.stderr
    assert done.stderr.count("jupyter hvd: ") <= 1


@pytest.mark.parametrize("command", each(*PRINTING, *EQUAL_OUTPUT, *RUNNING))
def test_the_working_folder_is_gone(folder: Path, command: str) -> None:
    """The working folder is removed: what needs none is done, what starts ranks says so"""
    (folder / "gone").mkdir()
    command_there = command.replace("train.py", f"{folder}/train.py")
    command_there = command_there.replace("plain.py", f"{folder}/plain.py")
    done = shell(folder, f"cd gone; rmdir ../gone; HVD {command_there}")
    assert "Traceback" not in done.stderr
    if not command.startswith(("run plain", VERIFY)):
        assert done.returncode == 0, done.stderr
        return
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1] == (
        "jupyter hvd: the working folder has been removed: change to a folder that exists"
    )
