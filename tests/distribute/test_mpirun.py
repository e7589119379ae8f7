"""`--launcher mpirun`, with Open MPI and a Horovod that was built for it: `make env-mpi`."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import pytest

from jupyter_hvd.launch.mpi import ANY_MPI

from ..needs import needs
from .hosts import HOSTS, change, command_lines, printed
from .slurm import slurm_of_two_nodes, wait_until

#: `make test` does not make this environment, so it leaves these tests out.
pytestmark = [pytest.mark.slow, pytest.mark.long, pytest.mark.needs("mpi")]

SECRET = "secret-that-nobody-else-may-read"
PYTHON = Path(__file__).parents[2] / ".venv-mpi" / "bin" / "python"
#: What it is converted to trains as one, by MPI; `SECRET_OF_MINE` has come all the same.
TRAINS = """import os, sys
import numpy as np
import tensorflow as tf

rank = int(os.environ["HOROVOD_RANK"])
x = np.random.default_rng(0).normal(size=(64, 3)).astype("float32")
model = tf.keras.Sequential([tf.keras.layers.Dense(1, use_bias=False)])
model.compile("sgd", loss="mse")
BEFORE
model.fit(x, x[:, :1], batch_size=8, epochs=2, verbose=0)
hvd = sys.modules["horovod.tensorflow"]
print("weights", model.get_weights()[0].tolist(), "by MPI", hvd.mpi_enabled(), flush=True)
print(len(os.environ["SECRET_OF_MINE"]), "local", hvd.local_rank(), os.environ["HOROVOD_LOCAL_RANK"], flush=True)
"""
SLEEPS = "import time\nprint('begun', flush=True)\ntime.sleep(600)\n"
FAILS = "import os, time\nif os.environ['HOROVOD_RANK'] == '1':\n    {}\ntime.sleep(600)\n"


@pytest.fixture
def start(tmp_path: Path, logs: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts `jupyter hvd run` of a program; nothing of the job is left in the end."""
    started = []

    def begin(text: str, *options: str, **environment: str) -> subprocess.Popen[str]:
        (tmp_path / "job.py").write_text(text)
        words = ("run", "job.py", "-n", "2", "--launcher", "mpirun", "--log", str(logs), *options)
        process = subprocess.Popen(
            [str(PYTHON), "-m", "jupyter_hvd", *words],
            cwd=tmp_path,
            env={**os.environ, "SECRET_OF_MINE": SECRET, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        process.kill()
        process.communicate()
    deadline = time.monotonic() + 20
    while (lines := left(tmp_path)) and time.monotonic() < deadline:
        time.sleep(0.3)
    assert not lines


def left(folder: Path) -> list[str]:
    """The processes that work there, or have it in their command line; the hosts' sshd is not the job's."""
    return [
        line
        for process in psutil.process_iter()
        if (line := _line(process))
        and "sshd" not in line
        and (str(folder) in line or _works_in(process, folder))
    ]


def _line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def _works_in(process: psutil.Process, folder: Path) -> bool:
    try:
        return process.cwd() == str(folder)
    except (psutil.Error, OSError):
        return False


def wait_for_ranks(job: subprocess.Popen[str], logs: Path, word: str = "begun") -> None:
    """Wait until both ranks have printed a word. A job that takes too long is ended."""

    def have_all() -> bool:
        if len([*logs.glob("*/rank-*.txt")]) < 2:
            return False
        return all(word in text for text in printed(logs))

    wait_until(lambda: job.poll() is not None or have_all(), 100)
    if job.poll() is not None or not have_all():
        job.terminate()
        raise AssertionError(job.communicate()[0])


def test_ranks_train_as_one_by_mpi(start: Any, logs: Path) -> None:
    output, _ = (job := start(TRAINS.replace("BEFORE", ""), "--ignore", "HVD6")).communicate(
        timeout=200
    )
    assert job.returncode == 0, output
    ranks = printed(logs)
    assert len(ranks) == 2
    assert len(set(map(weights_of, ranks))) == 1
    for rank, text in enumerate(ranks):
        assert f"{len(SECRET)} local {rank} {rank}\n" in text


def weights_of(text: str) -> str:
    """What a rank that trained by MPI has printed of its weights."""
    (line,) = (line for line in text.splitlines() if line.startswith("weights "))
    assert line.endswith(" by MPI True")
    return line


@pytest.mark.parametrize(
    ("failure", "code", "word"),
    [
        ("raise SystemExit(3)", 3, "rank 1 failed with exit code 3"),
        ("raise ValueError('not today')", 1, "ValueError: not today"),
        ("os.kill(os.getpid(), 9)", 137, "it was killed (signal 9)"),
    ],
)
def test_how_a_rank_fails(start: Any, failure: str, code: int, word: str) -> None:
    begun = time.monotonic()
    output, _ = (job := start(FAILS.format(failure))).communicate(timeout=100)
    assert job.returncode == code, output
    assert output.count(word) == 1
    assert "rank 1 failed" in output
    assert time.monotonic() - begun < 60


def test_a_rank_that_fails_while_others_wait_for_it_in_mpi(start: Any) -> None:
    program = TRAINS.replace("BEFORE", "if rank == 1:\n    raise ValueError('not today')")
    output, _ = (job := start(program)).communicate(timeout=200)
    assert job.returncode == 1, output
    assert output.count("ValueError: not today") == 1
    assert "rank 1 failed" in output


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_ended_from_outside_it_leaves_nothing(
    start: Any, logs: Path, number: signal.Signals
) -> None:
    job = start(SLEEPS)
    wait_for_ranks(job, logs)
    assert not [line for line in command_lines() if SECRET in line]
    job.send_signal(number)
    job.communicate(timeout=30)
    assert job.returncode not in (0, 2)


def test_mpirun_is_killed(start: Any, logs: Path) -> None:
    job = start(SLEEPS)
    wait_for_ranks(job, logs)
    (mpirun,) = (
        process
        for process in psutil.Process(job.pid).children(recursive=True)
        if process.name() == "mpirun"
    )
    mpirun.kill()
    job.communicate(timeout=30)
    assert job.returncode != 0


def test_no_such_host(start: Any) -> None:
    output, _ = (job := start(SLEEPS, "-H", "no-such-host:2")).communicate(timeout=60)
    assert job.returncode == 2
    assert "no-such-host" in output


def test_living_ranks(open_notebook: Callable[..., Any]) -> None:
    notebook = open_notebook(python=str(PYTHON))
    notebook.good("import numpy as np\nimport tensorflow as tf\nx = np.ones((64, 3), 'float32')\n")
    notebook.good(
        "model = tf.keras.Sequential([tf.keras.layers.Dense(1, use_bias=False)])\nmodel.compile('sgd', loss='mse')"
    )
    notebook.good(
        "%%distribute -n 2 --launcher mpirun\nmodel.fit(x, x[:, :1], batch_size=8, verbose=0)"
    )
    result = notebook.good(
        "%%distribute\nimport horovod.tensorflow as hvd\nprint('of', hvd.size(), hvd.mpi_enabled())"
    )
    assert "of 2 True" in result.stdout
    message = notebook.begin(
        "%%distribute\nimport time\nprint('begun', flush=True)\ntime.sleep(600)"
    )
    notebook.finish(message, until=lambda r: "begun" in r.stdout)
    notebook.interrupt()
    assert "KeyboardInterrupt" in notebook.finish(message).text
    assert "of 2 True" in notebook.good("%%distribute\nprint('of', hvd.size(), True)").stdout
    psutil.Process(notebook.rank_pids()[1]).kill()
    lost = notebook.run("%%distribute\nprint('again')")
    assert "rank 1" in lost.text
    notebook.good("%hvd stop")
    assert not notebook.processes()


def test_two_hosts(two_hosts: Path, start: Any, logs: Path) -> None:
    """By ssh, as mpirun starts it there; nothing secret in a command line on either."""
    path = f"{two_hosts / 'bin'}:{os.environ['PATH']}"
    hosts = ",".join(f"{address}:1" for address in HOSTS.values())
    job = start(TRAINS.replace("BEFORE", "") + SLEEPS, "-H", hosts, "--ignore", "HVD6", PATH=path)
    wait_for_ranks(job, logs)
    lines = command_lines()
    assert sum("jupyter_hvd.ranks.agent" in line and "mpirun" not in line for line in lines) >= 2
    assert any("orted" in line for line in lines)
    token = next(
        process.environ()["JUPYTER_HVD_TOKEN"]
        for process in psutil.Process(job.pid).children(recursive=True)
        if process.name() == "mpirun"
    )
    for secret in (SECRET, token):
        assert not [line for line in lines if secret in line]
    job.send_signal(signal.SIGTERM)
    output, _ = job.communicate(timeout=30)
    assert job.returncode != 0, output


def test_a_host_whose_horovod_has_no_mpi(two_hosts: Path, start: Any) -> None:
    """There it would crash; the environment of these tests has such a one."""
    below = [str(file) for file in PYTHON.parents[1].rglob("horovod/tensorflow/mpi_lib*.so")]
    found = find_spec("horovod")
    assert found is not None
    (own,) = Path(str(found.origin)).parent.glob("tensorflow/mpi_lib*.so")
    assert ANY_MPI not in own.read_bytes()
    second = list(HOSTS)[1]
    change(str(two_hosts / f"{second}.conf"), "mount", "--bind", str(own), *below)
    hosts = ",".join(f"{address}:1" for address in HOSTS.values())
    job = start(SLEEPS, "-H", hosts, PATH=f"{two_hosts / 'bin'}:{os.environ['PATH']}")
    output, _ = job.communicate(timeout=60)
    assert job.returncode == 1
    assert f"host {second}: --launcher mpirun: Horovod was built without MPI" in output


@pytest.mark.needs("slurm", "root")
def test_inside_an_allocation_of_slurm(tmp_path: Path, logs: Path) -> None:
    """There mpirun starts its daemons by srun, one a node."""
    (tmp_path / "job.py").write_text(TRAINS.replace("BEFORE", "print(os.uname().nodename)"))
    hvd = (str(PYTHON), "-m", "jupyter_hvd", "run", "job.py", "-n", "2", "--ignore", "HVD6")
    with ExitStack() as made:
        try:
            slurm = made.enter_context(slurm_of_two_nodes())
        except OSError as error:
            pytest.skip(f"Slurm{needs.SKIPPED}{error}")
        allocation = ("salloc", "--quiet", "--ntasks=2", "--ntasks-per-node=1")
        done = subprocess.run(
            slurm.login(*allocation, *hvd, "--launcher", "mpirun", "--log", str(logs)),
            cwd=tmp_path,
            env={**os.environ, **slurm.environment, "SECRET_OF_MINE": SECRET},
            capture_output=True,
            text=True,
            timeout=150,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert slurm.no_job_left()
    ranks = printed(logs)
    assert len(set(map(weights_of, ranks))) == 1
    for text, host in zip(ranks, HOSTS, strict=True):
        assert f"{host}\n" in text
        assert f"{len(SECRET)} local 0 0\n" in text
