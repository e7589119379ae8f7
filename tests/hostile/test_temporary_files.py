"""What killed ranks leave in the temporary folder, where other programs look for their own files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import PATIENCE, Aftermath

#: A step that TensorFlow compiles, and files that the program makes: to stay, and to go.
BODY = """\
import os, tempfile, time
import numpy as np
import tensorflow as tf

@tf.function
def double(x):
    if tf.reduce_sum(x) > 0:
        x = x * 2
    return x

double(tf.ones(3))
results = tempfile.mkdtemp(prefix="results-")
scratch = tempfile.TemporaryDirectory(prefix="scratch-")
"""


def names(folder: Path) -> set[str]:
    return {path.name.split("-")[0] for path in folder.rglob("*")}


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_signal_to_run(tmp_path: Path, aftermath: Aftermath, number: signal.Signals) -> None:
    """`run` is ended while ranks have temporary files of libraries and of their own"""
    begun = f"top = {str(tmp_path)!r}  # rank 1 works on a copy of it\n"
    begun += "import pathlib\npathlib.Path(top, 'begun-' + os.environ['HOROVOD_RANK']).touch()\n"
    (tmp_path / "job.py").write_text(f"{BODY}{begun}time.sleep(600)\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "jupyter_hvd", "run", "job.py", "-n", "2"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": ""},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    aftermath.wait_for(lambda: len(list(tmp_path.glob("begun-*"))) == 2, process)
    there = {name[:20] for name in names(aftermath.temporary)}
    assert {"__autograph_generate", "results", "scratch"} <= there
    process.send_signal(number)
    process.wait(PATIENCE)
    aftermath.seconds = aftermath.until_gone()
    assert names(aftermath.temporary) == {"results"}


@pytest.mark.slow
def test_run_ends_in_order(hvd_process, tmp_path: Path, aftermath: Aftermath) -> None:
    """`run` ends by itself: what the program keeps stays"""
    (tmp_path / "job.py").write_text(BODY)
    assert hvd_process("run", "job.py", "-n", 2).returncode == 0
    assert names(aftermath.temporary) == {"results"}


def test_what_is_noted(tmp_path: Path) -> None:
    """What libraries make, and what `tempfile` itself is to remove; not what is left to the user's code"""
    program = """\
import multiprocessing.util, os, sys, tempfile
from jupyter_hvd.launch import heartbeat, temporary_files
notes = temporary_files.make_notes_folder(temporary_files.Path(sys.argv[1]))
os.environ.update(notes)
temporary_files.note_temporary_files()
kept = [tempfile.mkdtemp(prefix="kept-"), tempfile.NamedTemporaryFile(prefix="kept-", delete=False)]
gone = [tempfile.TemporaryDirectory(prefix="gone-"), tempfile.NamedTemporaryFile(prefix="gone-")]
library = multiprocessing.util.get_temp_dir()
beside = tempfile.mkdtemp(prefix="beside-", dir=sys.argv[1])
assert os.path.isdir(library)
for _ in range(5000):
    tempfile.NamedTemporaryFile().close()
assert sum(map(os.path.getsize, temporary_files.Path(sys.argv[1]).rglob("*-*"))) < 150_000
if sys.argv[2] == "lifeline":
    heartbeat.end_self()
os.kill(os.getpid(), 9)
"""
    from jupyter_hvd.launch.temporary_files import remove_noted

    for way in ("lifeline", "killed"):
        job, temporary = tmp_path / f"job-{way}", tmp_path / f"tmp-{way}"
        job.mkdir()
        temporary.mkdir()
        (tmp_path / "user.py").write_text(program)
        subprocess.run(
            [sys.executable, tmp_path / "user.py", job, way],
            env={**os.environ, "TMPDIR": str(temporary)},
            check=False,
        )
        if way == "killed":
            assert names(temporary) == {"kept", "gone", "pymp"}
            remove_noted(job)
        assert names(temporary) == {"kept"}, way
        assert names(job) >= {"beside"}
