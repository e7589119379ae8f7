"""Runs a batch job on N ranks: output by rank, the exit code, and clean-up."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from .base import (
    SECONDARY_FAILURE,
    Exit,
    LaunchSpec,
    Output,
    QueueReport,
    describe_exit,
    parse_report,
    rank_environment,
    start_placement,
    status_files,
)
from .heartbeat import HeartbeatServer
from .hosts import LaunchError
from .job_monitor import StallListener, watch_ranks
from .processes import end_processes
from .rank_placement import RankAssignment
from .reaper import PrivateFolder
from .start_faults import REFUSED, RefusedAtStartError, is_refused_at_start, start_again_once
from .temporary_files import make_notes_folder

#: Receives a line of output: the rank, "stdout" or "stderr", the text without newline.
Listener = Callable[[int, str, str], None]
#: What runs a program on each rank of a batch job.
BATCH_RANK = "jupyter_hvd.ranks.job_rank"
#: The exit code of a job whose time was up.
TIMED_OUT = 124
#: How many lines of a rank's standard error are reported if the rank could not report how it ended.
LAST_LINES = 12
#: Informational log lines of TensorFlow.
TENSORFLOW_LOG = re.compile(
    r"[IW]\d{4} \d\d:|\d{4}-\d\d-\d\d [\d:.]+: [IW] |WARNING: All log messages before absl"
)


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


@dataclass(frozen=True)
class Program:
    """The program that a rank runs.

    Attributes:
        converted: the file to run. original: the user's file, for `sys.argv` and imports.
        module: the module that runs it, `python -m module CONVERTED FOLDER ORIGINAL *ARGUMENTS`.
    """

    converted: Path
    original: Path
    arguments: Sequence[str] = ()
    module: str = BATCH_RANK


def run_job(
    program: Program,
    assignment: RankAssignment,
    folder: PrivateFolder,
    *,
    timeout: float | None = None,
    listener: Listener,
    queued: Callable[[str], None] = lambda _: None,
    stalled: StallListener = lambda *_: None,
    again: Callable[[str], None] = lambda _: None,
    environment: Mapping[str, str] | None = None,
) -> JobResult:
    """Run a program on ranks and wait for its end; afterwards no process of the job is left.

    A start at which ranks cannot connect is tried once more.

    Args:
        assignment: the hosts and the launcher.
        folder: gives the job its name, and belongs to the job.
        listener: gets each line that a rank prints.
        queued: called with what the job waits for before it starts, then with "".
        stalled: called from another thread with the ranks' positions when they make no progress.
        again: called when the ranks are started once more, with why; what they have written before does not count.
        timeout: seconds after which the job is ended.
        environment: more variables for the ranks.

    Raises:
        LaunchError: Horovod is missing, or the job cannot be started.
    """
    _require_horovod()
    deadline = None if timeout is None else time.monotonic() + timeout

    def start() -> JobResult:
        left = None if deadline is None else max(1.0, deadline - time.monotonic())
        return _run_start(program, assignment, folder, left, listener, queued, stalled, environment)

    try:
        return start_again_once(start, again)
    except RefusedAtStartError as error:
        result: JobResult = error.result
        return result


def _run_start(
    program: Program,
    assignment: RankAssignment,
    folder: PrivateFolder,
    timeout: float | None,
    listener: Listener,
    queued: Callable[[str], None],
    stalled: StallListener,
    environment: Mapping[str, str] | None,
) -> JobResult:
    """Start a job, and wait for its end; parameters as for `run_job`.

    Raises:
        RefusedAtStartError: a rank could not connect to another.
        LaunchError: the job cannot be started.
    """
    address = assignment.address
    exits: dict[int, int] = {}
    said: list[str] = []
    refusals: list[str] = []
    errors: dict[int, deque[str]] = defaultdict(lambda: deque(maxlen=LAST_LINES))
    with _status_folder(folder) as status, _open_heartbeats(address, assignment.size) as lines:
        orders = LaunchSpec(
            folder.job,
            assignment.size,
            assignment.hosts,
            program.module,
            _launcher_arguments(program, status),
            rank_environment(
                folder.job,
                {**lines.variables, **make_notes_folder(folder.path), **(environment or {})},
            ),
            os.getcwd(),  # noqa: PTH109 — as the user's shell names it
            address,
            launcher=assignment.launcher,
            files=(str(program.converted), str(status)),
        )
        process = start_placement(orders)
        with (
            ended_with(folder.job),
            ensure_ended(process),
            _expire_after(process, timeout) as expired,
            watch_ranks(lines, assignment.size, status, stalled),
        ):
            assert process.stdout is not None
            for line in process.stdout:
                report = parse_report(line.rstrip("\n"))
                match report:
                    case Exit(rank, code):
                        exits.setdefault(rank, code)
                    case QueueReport(text):
                        queued(text)
                    case Output(None, _, text):
                        said.append(text)
                    case Output(int(rank), stream, text):
                        if REFUSED.search(text):
                            refusals.append(text)
                        listener(rank, stream, text)
                        # Rank 0's output is shown anyway.
                        if stream == "stderr" and rank and not TENSORFLOW_LOG.match(text):
                            errors[rank].append(text)
            code = process.wait()
        if expired.is_set():
            return JobResult(
                TIMED_OUT, None, f"the job was ended after {round(timeout or 0, 1):g} s, as asked"
            )
        result = _job_result(status, code, exits, said, errors)
        reports = [each.description for each in (*lines.members.values(), *lines.gone.values())]
        if is_refused_at_start(exits.values(), reports, assignment.size, refusals):
            raise RefusedAtStartError(result.report, result)
        return result


def run_single(
    program: Program,
    folder: PrivateFolder,
    *,
    timeout: float | None = None,
    environment: Mapping[str, str] | None = None,
    launcher: Sequence[str] = (),
    size: int = 1,
) -> tuple[JobResult, list[str]]:
    """Run a program in one process, without Horovod; return how it ended, and the lines it printed.

    A job may have several such runs at once. Processes that one leaves running end with the job.

    Args:
        launcher: the words of a command that starts the program instead, perhaps several times.
        size: the largest number of processes.
    """
    with (
        _status_folder(folder) as status,
        _open_heartbeats("127.0.0.1", size) as lines,
        # Files and not pipes: a child that the program leaves behind would hold a pipe open.
        tempfile.TemporaryFile("w+", errors="replace", dir=folder.path) as printed,
        tempfile.TemporaryFile("w+", errors="replace", dir=folder.path) as said,
    ):
        command = [
            sys.executable,
            "-P",
            "-m",
            program.module,
            *_launcher_arguments(program, status),
        ]
        process = subprocess.Popen(  # noqa: S603 — a list of arguments, no shell
            [*launcher, *command],
            env=rank_environment(folder.job, {**lines.variables, **(environment or {})}),
            stdin=subprocess.DEVNULL,
            stdout=printed,
            stderr=said,
            text=True,
            start_new_session=True,
        )
        with ensure_ended(process):
            try:
                code = process.wait(timeout)
            except subprocess.TimeoutExpired:
                return JobResult(TIMED_OUT, None, f"no end within {timeout:g} s"), []
        printed.seek(0)
        said.seek(0)
        result = _job_result(
            status, code if code >= 0 else 128 - code, {}, said.read().splitlines()
        )
        return result, printed.read().splitlines()


def _launcher_arguments(program: Program, status: Path) -> tuple[str, ...]:
    """Return the command-line arguments of `job_rank`."""
    return (str(program.converted), str(status), str(program.original), *program.arguments)


@contextmanager
def _status_folder(folder: PrivateFolder) -> Iterator[Path]:
    """Create a folder for the ranks' status files, and remove it after the block."""
    with tempfile.TemporaryDirectory(prefix="status-", dir=folder.path) as status:
        yield Path(status)


def _open_heartbeats(address: str, size: int) -> closing[HeartbeatServer]:
    """Listen for the ranks and their launcher, which end when this process does."""
    names = ["launcher", *(f"rank {rank}" for rank in range(size))]
    return closing(HeartbeatServer(address, 0, lambda: None, names))


@contextmanager
def _expire_after(
    process: subprocess.Popen[str], timeout: float | None
) -> Iterator[threading.Event]:
    """Terminate a process after `timeout` seconds, unless the block ends before; yield an event that says so."""
    expired = threading.Event()

    def end_expired() -> None:
        expired.set()
        process.terminate()

    timer = threading.Timer(timeout or 0, end_expired)
    timer.daemon = True
    if timeout:
        timer.start()
    try:
        yield expired
    finally:
        timer.cancel()


def _require_horovod() -> None:
    """Raise LaunchError if Horovod is not installed."""
    from importlib.util import find_spec

    if find_spec("horovod") is None:
        raise LaunchError("Horovod is not installed here: see `jupyter hvd doctor`")


def _job_result(
    status: Path,
    code: int,
    exits: Mapping[int, int],
    said: Sequence[str] = (),
    errors: Mapping[int, Iterable[str]] = MappingProxyType({}),
) -> JobResult:
    """Return the result of a job: the rank that failed first, by its own clock, with its own exit code.

    Args:
        exits: the exit codes of ranks, in the order in which they ended. said: what the launcher printed.
        errors: the last lines that ranks wrote to standard error.
    """
    endings = [json.loads(file.read_text()) for file in status_files(status)]
    if code < 0:  # the ranks that failed then did so for that reason
        return JobResult(
            128 - code, None, f"the process that starts the ranks died: {describe_exit(128 - code)}"
        )
    failed = sorted((e for e in endings if e["code"] != 0), key=lambda e: e["time"])
    silent = [rank for rank in exits if rank not in {e["rank"] for e in endings}]
    blamed = [e for e in failed if not SECONDARY_FAILURE.search(e["report"])]
    if blamed:
        return JobResult(blamed[0]["code"], blamed[0]["rank"], blamed[0]["report"])
    if silent:
        # A rank that could not write how it ended was killed from outside.
        rank = silent[0]
        report = "\n".join([*errors.get(rank, ()), describe_exit(exits[rank])])
        return JobResult(exits[rank] or 1, rank, report)
    if failed:
        return JobResult(failed[0]["code"], failed[0]["rank"], failed[0]["report"])
    return JobResult(code, None, "\n".join(said) if code else "")


@contextmanager
def ensure_ended(process: subprocess.Popen[str]) -> Iterator[None]:
    """End a process when the block is left, however it is left."""
    try:
        yield
    finally:
        if process.poll() is None:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(6)
        if process.poll() is None:
            process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@contextmanager
def ended_with(job: str) -> Iterator[None]:
    """End every process of a job when the block is left, however it is left."""
    try:
        yield
    finally:
        end_processes(job)
