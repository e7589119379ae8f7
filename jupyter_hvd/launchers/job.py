"""A batch job on N ranks: `horovodrun --gloo`, its output by rank, its true exit code, no process left."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

#: Names a job in the environment of its processes, so that each of them can be found again.
JOB_VARIABLE = "JUPYTER_HVD_JOB"
#: A line of a rank's output, as horovodrun tags it, and its word of a rank's exit code.
TAGGED = re.compile(r"^\[(\d+)\]<(stdout|stderr)>: ?(.*)$", re.DOTALL)
EXITED = re.compile(r"Process (\d+) exit with status code (\d+)")
_LAUNCHER_NOISE = re.compile(
    r"Terminating remaining workers|Process name:|Exit code:|Traceback|RuntimeError|  |\[?horovodrun"
)

#: Receives a line of output: the rank (None: the launcher), "stdout" or "stderr", the text without newline.
Listener = Callable[[int | None, str, str], None]


class LaunchError(Exception):
    """The job could not be started; the message is for the user."""


@dataclass(frozen=True)
class JobResult:
    """How a job ended.

    Attributes:
        code: 0, or the exit code of the first rank that failed; 124 for a timeout.
        rank: the rank that failed first, None where none did or none is known.
        report: its traceback, or what else is known.
    """

    code: int
    rank: int | None = None
    report: str = ""


def check_size(size: int, hosts: str | None) -> None:
    """Refuse a number of ranks that cannot be meant.

    Raises:
        LaunchError: fewer than one rank, or far more than this machine has cores.
    """
    if size < 1:
        raise LaunchError(f"a job needs at least one rank, not {size}")
    limit = 16 * (os.cpu_count() or 1)
    if hosts is None and size > limit:
        raise LaunchError(
            f"{size} ranks on this machine's {os.cpu_count()} cores: more than {limit} cannot be meant"
        )


def launcher(size: int, hosts: str | None, timeout: float | None = None) -> list[str]:
    """The command that places ranks on hosts, to be followed by what each rank runs."""
    command = [sys.executable, "-m", "jupyter_hvd.launchers.horovodrun", "--gloo", "-np", str(size)]
    command += ["-H", hosts or f"localhost:{size}"]
    if timeout is not None:
        command += ["--start-timeout", str(max(1, int(timeout)))]
    return command


def rank_environment(job: str) -> dict[str, str]:
    """The environment of the ranks: unbuffered, named, silent about TensorFlow's start."""
    return {
        **os.environ,
        JOB_VARIABLE: job,
        "PYTHONUNBUFFERED": "1",
        "TF_CPP_MIN_LOG_LEVEL": os.environ.get("TF_CPP_MIN_LOG_LEVEL", "2"),
    }


def run_job(
    program: Path,
    original: Path,
    size: int,
    *,
    hosts: str | None = None,
    args: Sequence[str] = (),
    timeout: float | None = None,
    listener: Listener,
    environment: Mapping[str, str] | None = None,
) -> JobResult:
    """Run a converted script or notebook on `size` ranks and wait for its end.

    Args:
        program: the converted file. original: the user's file, for `sys.argv` and imports.
        hosts: as horovodrun's `-H`, `host:slots,…`; this machine where None.
        timeout: seconds after which the job is ended.
        environment: more variables for the ranks.

    Raises:
        LaunchError: Horovod is missing, or the size cannot be meant.
    """
    check_size(size, hosts)
    _require_horovod()
    job = uuid.uuid4().hex
    with tempfile.TemporaryDirectory(prefix="jupyter-hvd-") as status:
        command = [
            *launcher(size, hosts),
            *(
                sys.executable,
                "-m",
                "jupyter_hvd.rank.batch",
                str(program),
                status,
                str(original),
                *args,
            ),
        ]
        process = subprocess.Popen(  # noqa: S603 — a list of arguments, no shell
            command,
            env={**rank_environment(job), **(environment or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        exits: dict[int, int] = {}
        with ended_with(process, job):
            expired = threading.Event()
            timer = threading.Timer(timeout or 0, _expire, (process, expired))
            if timeout:
                timer.start()
            assert process.stdout is not None
            for line in process.stdout:
                _pass_on(line.rstrip("\n"), listener, exits)
            code = process.wait()
            timer.cancel()
        if expired.is_set():
            return JobResult(124, None, f"the job was ended after {timeout:g} s, as asked")
        return _result(Path(status), code, exits)


def _expire(process: subprocess.Popen[str], expired: threading.Event) -> None:
    expired.set()
    process.terminate()


def _require_horovod() -> None:
    from importlib.util import find_spec

    if find_spec("horovod") is None:
        raise LaunchError("Horovod is not installed here: see `jupyter hvd doctor`")


def _pass_on(line: str, listener: Listener, exits: dict[int, int]) -> None:
    tagged = TAGGED.match(line)
    if tagged is not None:
        if tagged[3] != "Terminated":  # said of the ranks that are ended because one has failed
            listener(int(tagged[1]), tagged[2], tagged[3])
        return
    exited = EXITED.search(line)
    if exited is not None:
        exits.setdefault(int(exited[1]), int(exited[2]))
    elif line.strip() and not _LAUNCHER_NOISE.match(line):
        listener(None, "stderr", line)


def _result(status: Path, code: int, exits: Mapping[int, int]) -> JobResult:
    """The rank that failed first, by its own clock, with its own exit code."""
    endings = [json.loads(file.read_text()) for file in sorted(status.glob("rank-*.json"))]
    failed = sorted((e for e in endings if e["code"] != 0), key=lambda e: e["time"])
    silent = [rank for rank in exits if rank not in {e["rank"] for e in endings}]
    blamed = [e for e in failed if not _is_consequence(e["report"])]
    if blamed:
        return JobResult(blamed[0]["code"], blamed[0]["rank"], blamed[0]["report"])
    if silent:
        # A rank that could not write how it ended was killed from outside.
        rank = silent[0]
        signal = exits[rank] - 128 if exits[rank] > 128 else None
        how = f"signal {signal}" if signal else f"exit code {exits[rank]}"
        return JobResult(
            exits[rank] or 1, rank, f"the process was killed ({how}); out of memory, perhaps"
        )
    if failed:
        return JobResult(failed[0]["code"], failed[0]["rank"], failed[0]["report"])
    return JobResult(code)


def _is_consequence(report: str) -> bool:
    """Whether a failure only tells that another rank has gone."""
    return "HorovodInternalError" in report or "Horovod has been shut down" in report


@contextmanager
def ended_with(process: subprocess.Popen[str], job: str) -> Iterator[None]:
    """End the launcher and every process of the job when the block is left, however it is left."""
    try:
        yield
    finally:
        if process.poll() is None:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(5)
        end_processes(job)
        if process.poll() is None:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()


def processes_of(job: str) -> list[int]:
    """The process ids, on this machine, of a job's processes."""
    import psutil

    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error, OSError):
            if process.pid != os.getpid() and process.environ().get(JOB_VARIABLE) == job:
                found.append(process.pid)
    return found


def end_processes(job: str, grace: float = 3.0) -> None:
    """Terminate what is left of a job, and kill what does not go within `grace` seconds."""
    import psutil

    left = []
    for pid in processes_of(job):
        with suppress(psutil.Error):
            process = psutil.Process(pid)
            process.terminate()
            left.append(process)
    for process in psutil.wait_procs(left, grace)[1]:
        with suppress(psutil.Error):
            process.kill()
    psutil.wait_procs(left, grace)
