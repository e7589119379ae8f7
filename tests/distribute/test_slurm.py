"""Ranks on Slurm's nodes: a real one, of two nodes, made and removed here."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from ..needs import needs
from .hosts import HOSTS, another_keras, change, printed
from .slurm import Slurm, slurm_of_two_nodes, wait_until

pytestmark = pytest.mark.slow

SECRET = "secret-that-nobody-else-may-read"
#: One rank a node. A program without training runs as it is, and starts in no time.
APART = "--salloc=--ntasks-per-node=1"
WHERE_AM_I = """import os
print("rank", os.environ["HOROVOD_RANK"], "on", os.uname().nodename, "job", os.environ["SLURM_JOB_ID"])
"""
SLEEP = "import time\nprint('begun', flush=True)\ntime.sleep(600)\n"
HVD = (sys.executable, "-m", "jupyter_hvd")


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    try:
        with slurm_of_two_nodes() as made:
            yield made
    except OSError as error:
        pytest.skip(f"Slurm{needs.SKIPPED}{error}")


@pytest.fixture
def start(slurm: Slurm, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a command on the login node; whatever is left of it goes with the test."""
    started = []

    def begin(*command: str, **environment: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            slurm.login(*command),
            cwd=tmp_path,
            env={**os.environ, **slurm.environment, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()
    slurm("scancel", "--user=root")
    assert slurm.no_job_left()


def program(folder: Path, text: str) -> str:
    path = folder / "job.py"
    path.write_text(text)
    return str(path)


def said(process: subprocess.Popen[str], word: str, within: float = 60) -> str:
    """What a process prints until a word comes."""
    assert process.stdout is not None
    text = ""
    deadline = time.monotonic() + within
    while word not in text and time.monotonic() < deadline:
        line = process.stdout.readline()
        if not line:
            break
        text += line
    assert word in text, text
    return text


def processes_naming(word: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if any(word in part for part in process.cmdline()):
                found.append(process)
    return found


def check_places(logs: Path) -> None:
    """Each rank was on a node of its own."""
    said = printed(logs)
    assert len(said) == len(HOSTS)
    for rank, host in enumerate(HOSTS):
        assert f"rank {rank} on {host} job" in said[rank]


def test_an_allocation_is_asked_for_and_given_back(
    slurm: Slurm, start: Any, tmp_path: Path, logs: Path
) -> None:
    file = program(tmp_path, WHERE_AM_I)
    job = start(*HVD, "run", file, "-n", "2", "--launcher", "slurm", APART, "--log", str(logs))
    output, _ = job.communicate(timeout=60)
    assert job.returncode == 0, output
    check_places(logs)
    assert slurm.no_job_left()
    assert list(tmp_path.iterdir()) == [Path(file)]  # no folder is left beside it


def test_inside_an_allocation_it_is_found_out(start: Any, tmp_path: Path, logs: Path) -> None:
    file = program(tmp_path, WHERE_AM_I)
    salloc = ("salloc", "--quiet", "--ntasks=2", "--ntasks-per-node=1")
    job = start(*salloc, *HVD, "run", file, "-n", "2", "--log", str(logs))
    output, _ = job.communicate(timeout=60)
    assert job.returncode == 0, output
    check_places(logs)
    refused = start(*salloc, *HVD, "run", file, "-n", "9")
    output, _ = refused.communicate(timeout=60)
    assert refused.returncode == 2
    assert "has room for 2 ranks, not for 9" in output


def test_a_node_that_differs_is_reported_before_a_rank_starts(start: Any, tmp_path: Path) -> None:
    second = list(HOSTS)[1]
    mounted = another_keras(tmp_path, second)
    try:
        file = program(tmp_path, WHERE_AM_I)
        job = start(*HVD, "run", file, "-n", "2", "--launcher", "slurm", APART)
        output, _ = job.communicate(timeout=60)
    finally:
        change(second, "umount", str(mounted))
    assert job.returncode == 1, output
    assert f"host {second}: keras 3.0.1, but" in output
    assert "rank 0 on" not in output


def test_what_a_rank_ends_with_and_no_secret_in_a_command_line(start: Any, tmp_path: Path) -> None:
    file = program(
        tmp_path, "import sys, time\nprint('begun', flush=True)\ntime.sleep(3)\nsys.exit(7)\n"
    )
    job = start(*HVD, "run", file, "-n", "2", "--launcher", "slurm", APART, SECRET_OF_MINE=SECRET)
    text = said(job, "begun")
    assert not processes_naming(SECRET)
    output, _ = job.communicate(timeout=60)
    assert job.returncode == 7, text + output


#: SIGINT ends it as SIGTERM does.
@pytest.mark.parametrize(
    "number",
    [pytest.param(signal.SIGINT, marks=pytest.mark.thorough), signal.SIGTERM, signal.SIGKILL],
)
def test_ended_from_outside_it_leaves_no_job(
    slurm: Slurm, start: Any, tmp_path: Path, number: signal.Signals
) -> None:
    job = start(*HVD, "run", program(tmp_path, SLEEP), "-n", "2", "--launcher", "slurm", APART)
    said(job, "begun")
    job.send_signal(number)
    assert wait_until(lambda: not processes_naming(str(tmp_path)), 30)
    assert slurm.no_job_left()


def test_the_queue_is_reported_and_left(slurm: Slurm, start: Any, tmp_path: Path) -> None:
    slurm("salloc", "--nodes=2", "--exclusive", "--no-shell")
    assert wait_until(lambda: any("RUNNING" in job for job in slurm.jobs()), 20)
    job = start(*HVD, "run", program(tmp_path, SLEEP), "-n", "2", "--launcher", "slurm")
    said(job, "waiting in Slurm's queue; Ctrl-C gives up")
    assert len(slurm.jobs()) == 2
    job.send_signal(signal.SIGINT)
    job.communicate(timeout=30)
    assert wait_until(lambda: len(slurm.jobs()) == 1, 20)


def test_no_such_partition(start: Any, tmp_path: Path) -> None:
    job = start(
        *HVD, "run", program(tmp_path, SLEEP), "-n", "2", "--launcher", "slurm", "--partition", "no"
    )
    output, _ = job.communicate(timeout=60)
    assert job.returncode == 2
    assert "Slurm has no node in the partition no" in output


TRAINS = """import os
import numpy as np
import tensorflow as tf

x = np.ones((64, 3), "float32")
model = tf.keras.Sequential([tf.keras.layers.Dense(1, use_bias=False)])
model.compile("sgd", loss="mse")
model.fit(x, x[:, :1], batch_size=8, epochs=2, verbose=0)
# By its whole path: other ranks work in copies of the folder.
file = f"{os.environ['SLURM_SUBMIT_DIR']}/rank-{os.environ['HOROVOD_RANK']}.txt"
open(file, "w").write(f"{os.uname().nodename} {model.get_weights()[0].tolist()}")
"""


@pytest.mark.long
def test_a_batch_job_that_was_written_for_it(
    slurm: Slurm, start: Any, hvd_here: Any, tmp_path: Path
) -> None:
    """`jupyter hvd job`, then sbatch: a rank for each task, on both nodes; they train as one."""
    (tmp_path / "it's $mine.py").write_text(TRAINS)
    written = hvd_here(
        *("job", "it's $mine.py", "--slurm", "-n", 2, "--time", "5:00"),
        "--sbatch=--ntasks-per-node=1 --output=said.txt",
        *("--", "a b", "$(touch here)"),
    )
    assert written.returncode == 0, written.stderr
    job = start("sbatch", "--wait", "it_s_mine_hvd.sbatch", SECRET_OF_MINE=SECRET)
    assert wait_until(lambda: bool(processes_naming("it_s_mine_hvd_ranks.py")), 60)
    while job.poll() is None:
        assert not processes_naming(SECRET)
        time.sleep(0.2)
    said = (tmp_path / "said.txt").read_text()
    assert job.returncode == 0, said
    ranks = [(tmp_path / f"rank-{rank}.txt").read_text().partition(" ") for rank in range(2)]
    assert [host for host, _, _ in ranks] == list(HOSTS), said
    assert len({weights for _, _, weights in ranks}) == 1
    assert not (tmp_path / "here").exists()
    assert slurm.no_job_left()
    assert not processes_naming("it_s_mine_hvd")


@pytest.mark.long
def test_a_batch_job_whose_rank_fails(
    slurm: Slurm, start: Any, hvd_here: Any, tmp_path: Path
) -> None:
    """The others end with it, and it is told which it was."""
    # A name of its own: other tests that run meanwhile have processes of a job.py.
    (tmp_path / "one_fails.py").write_text(
        "import os, sys, time\nrank, local = os.environ['HOROVOD_RANK'], os.environ['HOROVOD_LOCAL_RANK']\n"
        "print('rank', rank, 'on', os.uname().nodename, 'local', local)\n"
        "sys.exit(time.sleep(3) or 7) if rank == '3' else time.sleep(600)\n",
    )
    size = ("-n", 4, "--sbatch=--ntasks-per-node=2 --output=said.txt")
    assert hvd_here("job", "one_fails.py", "--slurm", *size).returncode == 0
    job = start("sbatch", "--wait", "one_fails_hvd.sbatch")
    output, _ = job.communicate(timeout=90)
    said = (tmp_path / "said.txt").read_text()
    assert job.returncode not in (0, 2), output + said
    assert "task 3: Exited with exit code 7" in said
    for rank, host in enumerate(host for host in HOSTS for _ in range(2)):
        assert f"{rank}: rank {rank} on {host} local {rank % 2}" in said
    assert slurm.no_job_left()
    assert wait_until(lambda: not processes_naming("one_fails_hvd"), 20)


def test_a_batch_script_from_another_folder(start: Any, hvd_here: Any, tmp_path: Path) -> None:
    program(tmp_path, "print('ran')\n")
    written = hvd_here(
        "job", "job.py", "--slurm", "-n", 1, "-o", "out", "--sbatch=--output=said.txt"
    )
    assert written.returncode == 0
    job = start("sbatch", "--wait", "out/job_hvd.sbatch")
    job.communicate(timeout=60)
    assert job.returncode == 2
    assert "submit this script from their folder" in (tmp_path / "said.txt").read_text()


@pytest.mark.long
def test_living_ranks(slurm: Slurm, open_notebook: Callable[..., Any], tmp_path: Path) -> None:
    python = tmp_path / "python"
    words = " ".join(f"'{word}'" for word in slurm.login(sys.executable))
    python.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    python.chmod(0o755)
    notebook = open_notebook(python=str(python), **slurm.environment)
    started = notebook.good(f"%hvd start -n 2 --launcher slurm {APART}")
    assert "2 ranks ready" in started.text
    where = notebook.good(
        "%%distribute\nimport os\nimport tensorflow as tf\nimport horovod.tensorflow as hvd\n"
        "print('sum', int(hvd.allreduce(tf.constant(1), op=hvd.Sum)), os.uname().nodename)"
    )
    assert f"sum 2 {next(iter(HOSTS))}" in where.stdout
    assert len(slurm.jobs()) == 1
    notebook.good("%hvd stop")
    assert slurm.no_job_left()
