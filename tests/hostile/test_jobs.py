"""Signals to every process of a batch job, at each stage; secrets and strangers while one runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from .conftest import Aftermath

pytestmark = [pytest.mark.slow, pytest.mark.own_forks]

SECRET = "secret-that-nobody-else-may-read"
SLEEPER = """\
import os, pathlib, subprocess, sys, time
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
top = os.environ["FOLDER_OF_MINE"]  # rank 1 works on a copy of it
pathlib.Path(top, f"begun-{os.environ['HOROVOD_RANK']}").write_text(str(os.getpid()))
time.sleep(600)
"""


def wait_for(condition: Callable[[], object], seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "the job does not come that far"
        time.sleep(0.01)


@contextmanager
def job(folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """`jupyter hvd run` of a program that sleeps on two ranks, each with a child of its own."""
    (folder / "job.py").write_text(SLEEPER)
    process = subprocess.Popen(
        [sys.executable, "-m", "jupyter_hvd", "run", "job.py", "-n", "2", *arguments],
        cwd=folder,
        env={
            **os.environ,
            "SECRET_OF_MINE": SECRET,
            "JUPYTER_TOKEN": SECRET,
            "FOLDER_OF_MINE": str(folder),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.terminate()
        process.wait(20)


def begun(folder: Path) -> bool:
    return all(
        (folder / f"begun-{r}").exists() and (folder / f"begun-{r}").read_text() for r in (0, 1)
    )


STAGES: dict[str, Callable[[Path, Aftermath], object]] = {
    "its folder is there": lambda _, found: found.folders(),
    "its ranks are being placed": lambda _, found: len(found.processes()) > 2,
    "its ranks run": lambda folder, _: begun(folder),
}


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize(
    "number",
    [
        signal.SIGTERM,
        pytest.param(signal.SIGHUP, marks=pytest.mark.thorough),
        pytest.param(signal.SIGINT, marks=pytest.mark.thorough),
        signal.SIGKILL,
    ],
)
def test_signal_to_run(
    tmp_path: Path, aftermath: Aftermath, stage: str, number: signal.Signals
) -> None:
    """`jupyter hvd run` is ended by a signal"""
    with job(tmp_path) as process:
        wait_for(lambda: STAGES[stage](tmp_path, aftermath))
        started = time.monotonic()
        process.send_signal(number)
        process.wait(20)
        wait_for(lambda: not aftermath.processes() and not aftermath.folders(), 20)
        aftermath.seconds = time.monotonic() - started
    codes = {signal.SIGKILL: (-9,), signal.SIGINT: (130, -2)}
    assert process.returncode in codes.get(number, (128 + number,))


def process_named(aftermath: Aftermath, module: str) -> psutil.Process:
    return next(p for p in of_the_job(aftermath) if module in command_line(p))


def of_the_job(aftermath: Aftermath) -> Iterator[psutil.Process]:
    """The processes that come from this test, and their children."""
    own = {process.pid for process in aftermath.processes()}
    for process in psutil.process_iter(["ppid"]):  # those that end meanwhile are passed over
        if process.pid in own or process.info["ppid"] in own:
            yield process


def everyone() -> Iterator[psutil.Process]:
    yield from psutil.process_iter()


def command_line(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


@pytest.mark.parametrize(
    "number",
    [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.thorough), signal.SIGKILL],
)
@pytest.mark.parametrize("who", ["jupyter_hvd.launch.placement", "jupyter_hvd.ranks.shared_rank"])
def test_signal_to_a_process_of_the_job(
    tmp_path: Path, aftermath: Aftermath, who: str, number: signal.Signals
) -> None:
    """The launcher or a rank is ended by a signal"""
    with job(tmp_path) as process:
        wait_for(lambda: begun(tmp_path))
        started = time.monotonic()
        process_named(aftermath, who).send_signal(number)
        process.wait(20)
        aftermath.seconds = time.monotonic() - started
        assert process.returncode not in (0, 2)
        assert process.stdout is not None
        said = process.stdout.read()
    assert "failed with exit code" in said
    assert "Traceback" not in said
    if who.endswith("placement") and number == signal.SIGKILL:
        assert process.returncode == 137
        assert "the process that starts the ranks died: it was killed (signal 9)" in said


def test_the_reaper_is_killed(tmp_path: Path, aftermath: Aftermath) -> None:
    """What looks after the job is killed; the job ends in order all the same"""
    with job(tmp_path) as process:
        wait_for(lambda: begun(tmp_path))
        process_named(aftermath, "jupyter_hvd.launch.reaper").kill()
        process.terminate()
        process.wait(20)


def test_no_secret_in_a_command_line(tmp_path: Path, aftermath: Aftermath) -> None:
    """Secrets of the environment, and the job's own, are searched in every command line"""
    with job(tmp_path):
        aftermath.tries = 0
        while not begun(tmp_path):
            lines = [command_line(p) for p in everyone()]
            assert not any(SECRET in line for line in lines)
            aftermath.tries += len(lines)
        ranks = [int((tmp_path / f"begun-{r}").read_text()) for r in (0, 1)]
        for pid in ranks:
            environment = psutil.Process(pid).environ()
            assert environment["SECRET_OF_MINE"] == SECRET  # the user's own program has it
            assert "JUPYTER_TOKEN" not in environment  # what is Jupyter's, it has not
        token = psutil.Process(ranks[0]).environ()["JUPYTER_HVD_TOKEN"]
        assert not any(token in command_line(p) for p in everyone())
        placed = process_named(aftermath, "jupyter_hvd.launch.placement")
        assert SECRET not in str(placed.environ())


def test_nothing_listens_beyond_this_machine(tmp_path: Path, aftermath: Aftermath) -> None:
    """Every socket that a local job listens on is bound to the loopback interface"""
    with job(tmp_path):
        wait_for(lambda: begun(tmp_path))
        aftermath.tries = 0
        for process in of_the_job(aftermath):
            with suppress(psutil.NoSuchProcess):
                for connection in process.net_connections("inet"):
                    if connection.status == psutil.CONN_LISTEN:
                        aftermath.tries += 1
                        assert connection.laddr.ip == "127.0.0.1"
        assert aftermath.tries


ASK = """\
import http.client, os, sys
if sys.argv[2] != "me": os.setuid(int(sys.argv[2]))
for method in ("GET", "PUT", "DELETE"):
    try:
        store = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=5)
        store.request(method, "/global/0", body=b"x" if method == "PUT" else None)
        print(store.getresponse().status)
    except (http.client.HTTPException, OSError):
        print("closed")
"""


@pytest.mark.needs("root")
def test_another_user_at_the_rendezvous(tmp_path: Path, aftermath: Aftermath) -> None:
    """Another user of the machine reads, writes and deletes in the ranks' rendezvous store"""
    with job(tmp_path):
        wait_for(lambda: begun(tmp_path))
        store = process_named(aftermath, "jupyter_hvd.launch.placement")
        port = next(
            c.laddr.port for c in store.net_connections("inet") if c.status == psutil.CONN_LISTEN
        )

        def ask(who: str) -> list[str]:
            done = subprocess.run(
                ["/usr/bin/python3", "-I", "-c", ASK, str(port), who],
                capture_output=True,
                text=True,
                check=True,
                cwd="/",
            )
            return done.stdout.split()

        assert ask("65534") == ["closed"] * 3
        assert "closed" not in ask("me")
        aftermath.tries = 3


@pytest.mark.parametrize(
    ("hosts", "size", "told"),
    [
        ("localhost:10000", 10000, "exceed the limit"),
        ("localhost", 2, "name:slots"),
        ("localhost:x", 2, "name:slots"),
        ("localhost:0", 2, "name:slots"),
        ("-oProxyCommand=touch x:2", 2, "name:slots"),
        ("localhost:1,localhost:1", 2, "twice"),
        ("localhost:1", 2, "room for 1 ranks"),
        ("no-such-host.invalid:2", 2, "no-such-host.invalid"),
        ("", 2, "name:slots"),
    ],
)
def test_bad_hosts(
    hvd_here: Any, tmp_path: Path, aftermath: Aftermath, hosts: str, size: int, told: str
) -> None:
    """Hosts that are none"""
    (tmp_path / "job.py").write_text("print('ran')")
    started = time.monotonic()
    done = hvd_here("run", "job.py", "-n", size, f"-H={hosts}")
    aftermath.seconds = time.monotonic() - started
    assert done.returncode == 2
    assert told in done.stderr
    assert done.stderr.count("\n") == 1
    assert "ran" not in done.stdout
