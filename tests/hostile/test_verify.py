"""`jupyter hvd verify` of programs that mean no good, and ended at every moment: no file changes, nothing is left."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jupyter_hvd.verify import workspace
from jupyter_hvd.verify.file_guard import FileGuard
from jupyter_hvd.verify.workspace import (
    UnconfirmedError,
    check_room,
    list_changed_files,
    make_copy,
    measure_folder,
    read_folder_state,
    read_working_state,
)

TRAINING = """
import numpy as np
import tensorflow as tf

model = tf.keras.Sequential([tf.keras.Input(shape=(3,)), tf.keras.layers.Dense(1)])
opt = tf.keras.optimizers.Adam(1e-2)
x = np.linspace(0, 1, 96, dtype="f").reshape(32, 3)
for a, b in tf.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(8):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(a) - b) ** 2)
    opt.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
"""
#: What a program does to the files beside it, by their names.
HARM = """
import tensorflow as tf
import os, pathlib, shutil
print(open('notes.csv').read().strip(), len(os.listdir('sub')))
open('notes.csv', 'w').write('mine now')
with open('table.csv', 'a') as table:
    table.write('more')
os.remove('sub/k.txt')
os.rename('old.txt', 'new.txt')
shutil.rmtree('tree')
os.chmod('mode.txt', 0)
os.truncate('long.txt', 0)
os.utime('time.txt', (1, 1))
open('through_link.txt', 'w').write('mine')
open('linked/data.txt', 'w').write('mine')
pathlib.Path('made').mkdir()
pathlib.Path(__file__).with_name('beside_me.txt').write_text('mine') if '__file__' in globals() else None
os.system('rm -f shell.txt; echo mine > shell2.txt')
"""
#: The same by full paths, each caught, so that all are tried.
FULL = """
import os, shutil
ROOT = {root!r}
TRIES = [
    lambda: open(ROOT + '/notes.csv', 'w'),
    lambda: os.open(ROOT + '/new_file.csv', os.O_CREAT | os.O_WRONLY),
    lambda: os.open(ROOT + '/notes.csv', os.O_RDWR | os.O_TRUNC),
    lambda: os.remove(ROOT + '/sub/k.txt'),
    lambda: os.rename(ROOT + '/old.txt', 'here.txt'),
    lambda: os.replace('notes.csv', ROOT + '/old.txt'),
    lambda: shutil.rmtree(ROOT + '/tree'),
    lambda: shutil.move(ROOT + '/tree', 'tree2'),
    lambda: os.chmod(ROOT + '/mode.txt', 0),
    lambda: os.truncate(ROOT + '/long.txt', 0),
    lambda: os.utime(ROOT + '/time.txt', (1, 1)),
    lambda: os.mkdir(ROOT + '/made'),
    lambda: os.symlink('x', ROOT + '/a_link'),
    lambda: os.link(ROOT + '/notes.csv', 'hard'),
    lambda: (os.symlink(ROOT + '/notes.csv', 'soft'), open('soft', 'w')),
    lambda: (os.chdir(ROOT), open('notes.csv', 'w')),
]
caught = 0
for each in TRIES:
    here = os.getcwd()
    try:
        each()
    except PermissionError:
        caught += 1
    os.chdir(here)
print('caught', caught, 'of', len(TRIES), open(ROOT + '/notes.csv').read().strip())
"""


def fill(root: Path) -> None:
    """A folder of somebody's work."""
    for name in ("notes.csv", "table.csv", "sub/k.txt", "old.txt", "tree/a/b.txt", "mode.txt"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"the user's {name}")
    for name in ("long.txt", "time.txt", "shell.txt", "shell2.txt", "target.txt", ".hidden"):
        (root / name).write_text(f"the user's {name}")
    outside = root.parent / "outside"
    outside.mkdir()
    (outside / "data.txt").write_text("the user's")
    (root / "linked").symlink_to(outside)
    (root / "through_link.txt").symlink_to("target.txt")
    (root / "nowhere").symlink_to("does/not/exist")
    (root / "itself").symlink_to(".")
    os.mkfifo(root / "pipe")


def digest(root: Path) -> str:
    """The hash of everything below a folder: names, kinds, modes, times and contents."""
    found = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        status = path.lstat()
        times = status.st_mtime_ns if not path.is_dir() else 0  # listing makes no difference
        found.update(repr((str(path), status.st_mode, times)).encode())
        if path.is_symlink():
            found.update(bytes(path.readlink()))
        elif path.is_file():
            found.update(path.read_bytes())
    return found.hexdigest()


@pytest.fixture
def user(tmp_path: Path) -> Path:
    root = tmp_path / "work"
    root.mkdir()
    fill(root)
    return root


def verify(*arguments: object, **more: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "jupyter_hvd", "verify", *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        **more,
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["script", "notebook"])
def test_the_user_s_files_stay(user: Path, aftermath, kind: str) -> None:
    """A program that overwrites, removes, renames and chmods what lies beside it."""
    source = HARM + TRAINING
    file = user / ("train.py" if kind == "script" else "train.ipynb")
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    notebook = {"nbformat": 4, "nbformat_minor": 4, "metadata": {}}
    file.write_text(
        source
        if kind == "script"
        else json.dumps(notebook | {"cells": [cell | {"source": source}]})
    )
    before = digest(user.parent)
    done = verify(file, "-n", 2, "--steps", 2, "--json")
    assert digest(user.parent) == before
    checks = {c["check"]: c for c in json.loads(done.stdout)["checks"]}
    assert checks["2 ranks: final weights"]["status"] == "pass", checks
    assert checks["your files untouched"]["status"] == "pass", checks
    aftermath.tries = 12


@pytest.mark.slow
@pytest.mark.parametrize("batch", ["per-rank", "global"])
def test_an_editor_may_save_the_program_meanwhile(user: Path, aftermath, batch: str) -> None:
    """JupyterLab saves a notebook every two minutes, whatever is verified."""
    file = user / "train.py"
    file.write_text(f"import os\nos.system('touch {file}')\n{TRAINING}")
    done = verify(file, "-n", 2, "--steps", 2, "--json", "--batch", batch)
    checks = {c["check"]: c for c in json.loads(done.stdout)["checks"]}
    assert checks["your files untouched"]["status"] == "pass", checks
    aftermath.tries = 12


@pytest.mark.slow
@pytest.mark.long
def test_full_paths_are_refused(user: Path, aftermath) -> None:
    """A program that does so by full paths, from sixteen directions."""
    (user / "train.py").write_text(
        "import tensorflow as tf\n" + FULL.format(root=str(user)) + TRAINING
    )
    before = digest(user.parent)
    done = verify(user / "train.py", "--steps", 2, "--json")
    assert digest(user.parent) == before
    checks = {c["check"]: c for c in json.loads(done.stdout)["checks"]}
    assert checks["your files untouched"]["status"] == "fail", checks
    assert str(user) in checks["your files untouched"]["detail"]
    assert done.returncode == 1
    aftermath.tries = 16


def test_each_full_path_is_refused(user: Path, tmp_path: Path) -> None:
    """The same without ranks: each of them is refused."""
    (tmp_path / "own").mkdir()
    program = (
        "import sys, os\nfrom pathlib import Path\nfrom jupyter_hvd.verify.file_guard import FileGuard\n"
        f"os.chdir({str(tmp_path / 'own')!r})\nopen('notes.csv', 'w').close()\n"
        f"sys.addaudithook(FileGuard(Path({str(user)!r}), Path({str(tmp_path / 'own')!r})))\n"
    )
    before = digest(user)
    done = subprocess.run(
        [sys.executable, "-c", program + FULL.format(root=str(user))],
        capture_output=True,
        text=True,
        check=True,
    )
    assert digest(user) == before
    assert done.stdout.startswith("caught 16 of 16 the user's notes.csv"), done.stdout


def test_what_the_guard_lets_through(user: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(user))
    guard = FileGuard(user, user / "jupyter-hvd-own")
    assert not guard.protects_path(user / "jupyter-hvd-own" / "x")
    assert not guard.protects_path(user / ".cache" / "x")
    assert not guard.protects_path(tmp_path / "elsewhere")
    assert not guard.protects_path(user / "tmpabc"), (
        "a temporary file of a program in the temporary folder"
    )
    assert guard.protects_path(user / "notes.csv")


def test_copies(user: Path, tmp_path: Path) -> None:
    """A copy has all files, links within, and what links without lead to; no fifo, no circle."""
    before = digest(user.parent)
    (tmp_path / "venv").mkdir()
    (user / "venv").mkdir()
    (user / "venv" / "pyvenv.cfg").write_text("")
    copy = tmp_path / "copy"
    make_copy(user, copy)
    names = {str(p.relative_to(copy)) for p in copy.rglob("*")}
    assert names >= {
        "notes.csv",
        "sub/k.txt",
        "tree/a/b.txt",
        "linked/data.txt",
        "through_link.txt",
    }
    assert not names & {"pipe", "nowhere", ".hidden", "venv"}
    assert not (copy / "linked").is_symlink()
    assert (copy / "through_link.txt").readlink() == Path("target.txt")
    state = read_working_state(copy)
    (copy / "through_link.txt").write_text("mine")
    (copy / "linked" / "data.txt").write_text("mine")
    assert list_changed_files(state, read_working_state(copy)) == ["linked/data.txt", "target.txt"]
    (user / "venv" / "pyvenv.cfg").unlink()
    (user / "venv").rmdir()
    (tmp_path / "venv").rmdir()
    shutil.rmtree(copy)
    assert digest(user.parent) == before


def test_what_changes_in_the_user_s_folder_is_seen(user: Path) -> None:
    before = read_folder_state(user)
    (user / "notes.csv").write_text("by a library that is not Python")
    (user / "old.txt").unlink()
    (user / ".hidden").write_text("no matter")
    assert list_changed_files(before, read_folder_state(user)) == ["notes.csv", "old.txt"]


def test_much_is_not_copied_unasked(user: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(workspace, "MAX_FILES", 5)
    with pytest.raises(UnconfirmedError, match="each of 4 processes works on a copy"):
        check_room(user, tmp_path, copies=4, confirmed=False)
    check_room(user, tmp_path, copies=4, confirmed=True)
    assert measure_folder(user).files == 6


def test_the_question_on_the_command_line(user: Path, aftermath) -> None:
    """A large folder, and nobody to ask: refused, with the way out."""
    (user / "train.py").write_text(TRAINING)
    with (user / "large.bin").open("wb") as file:
        file.truncate(workspace.MAX_BYTES + 1)  # as a hole, it takes no room
    start = time.monotonic()
    done = verify(user / "train.py", stdin=subprocess.DEVNULL)
    aftermath.seconds = time.monotonic() - start
    assert done.returncode == 2
    assert "--yes" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    os.truncate(user / "large.bin", 10**13)
    done = verify(user / "train.py", "--yes")
    assert done.returncode == 2
    assert "do not fit" in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-n", 0], "at least one rank"),
        (["-n", -3], "at least one rank"),
        (["-n", 10_000], "10000"),
        (["--steps", 0], "0 steps"),
        (["--steps", -1], "-1 steps"),
        (["--timeout", 0], "within 0 s"),
        (["--timeout", "nan"], "within nan s"),
    ],
)
def test_numbers_that_cannot_be_meant(hvd_here, user: Path, aftermath, options, message) -> None:
    """Numbers that cannot be meant are refused at once."""
    (user / "train.py").write_text(TRAINING)
    start = time.monotonic()
    done = hvd_here("verify", user / "train.py", *options)
    aftermath.seconds = time.monotonic() - start
    assert done.returncode == 2
    assert message in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def wait_for_file(aftermath, process: subprocess.Popen[str], file: str) -> None:
    """Until a run of `verify` has made a file."""
    aftermath.wait_for(lambda: any(aftermath.temporary.glob(f"jupyter-hvd-*/{file}")), process)


@pytest.mark.slow
@pytest.mark.parametrize("stage", [1, 2], ids=["alone", "ranks"])
@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        signal.SIGKILL,
        pytest.param(signal.SIGHUP, marks=pytest.mark.thorough),
        pytest.param(signal.SIGINT, marks=pytest.mark.thorough),
    ],
    ids=lambda number: number.name,
)
def test_signals(user: Path, aftermath, number: signal.Signals, stage: int) -> None:
    """A signal to verify ends all that it has started."""
    slow = (
        "import os, time\nimport tensorflow as tf\nopen('here', 'w').close()\n"
        "if 'HOROVOD_RANK' in os.environ or {}: time.sleep(600)\n"
    )
    (user / "train.py").write_text(slow.format(stage == 1) + TRAINING)
    before = digest(user.parent)
    process = subprocess.Popen(
        [sys.executable, "-m", "jupyter_hvd", "verify", str(user / "train.py"), "--events"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdout is not None
    run = "2-ranks-training" if stage == 2 else "one-process"
    wait_for_file(aftermath, process, f"{run}/cwd-0/here")
    process.send_signal(number)
    aftermath.seconds = aftermath.until_gone()
    assert process.wait(1) is not None
    assert digest(user.parent) == before


@pytest.mark.slow
def test_the_server_is_killed(user: Path, aftermath) -> None:
    """SIGKILL to the server during a verification."""
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None}
    cell["source"] = "open('here', 'w').close()\nimport time\ntime.sleep(600)\n" + TRAINING
    request = {
        "notebook": {"nbformat": 4, "nbformat_minor": 4, "metadata": {}, "cells": [cell]},
        "n": 2,
        "steps": 2,
        "options": {},
        "confirmed": False,
        "folder": str(user),
        "name": "train.ipynb",
    }
    program = (
        "import asyncio, json, sys\nfrom jupyter_hvd.server.routes import Verifier\n"
        "async def main():\n    async for event in Verifier().stream_events(json.load(sys.stdin)): print(event)\n"
        "asyncio.run(main())"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    assert process.stdin is not None
    process.stdin.write(json.dumps(request))
    process.stdin.close()
    wait_for_file(aftermath, process, "one-process/cwd-0/here")
    process.kill()
    aftermath.seconds = aftermath.until_gone()
    process.wait()
