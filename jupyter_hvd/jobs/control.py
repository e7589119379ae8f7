"""Reads the logs of jobs, and stops running jobs of this user on this machine."""

from __future__ import annotations

import heapq
import json
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import IO, Any, Literal

from .log import BEGUN, ENDED, process_key, rank_file, require_private_folder

State = Literal["runs", "ended", "lost", "elsewhere"]
#: Seconds for a job that is told to end, before it is killed; its reaper then cleans up.
PATIENCE = 30.0
#: Seconds between two looks for what a job has said.
PAUSE = 0.2
#: Seconds.
LONGEST = 60 * 24 * 3600.0
LINE = re.compile(r"(\d+\.\d+) ?(.*)")


class NoSuchJobError(Exception):
    """There is no such job, or not one alone; the message is for the user."""


@dataclass(frozen=True)
class Job:
    """A job, as its log tells.

    Attributes:
        folder: of its log. begun: what was written when it began. ended: when it ended, None before.
    """

    folder: Path
    begun: dict[str, Any]
    ended: dict[str, Any] | None

    @property
    def name(self) -> str:
        """The name of the job: that of its folder."""
        return self.folder.name

    @property
    def state(self) -> State:
        """How the job stands: "lost" if it was killed and could not say how it ended, "elsewhere" if another host knows."""
        if self.ended is not None:
            return "ended"
        if self.begun.get("host") != os.uname().nodename:
            return "elsewhere"
        return "runs" if self.process is not None else "lost"

    @property
    def is_past(self) -> bool:
        """Whether the job has ended; one of another host counts as ended after the longest time that a job lasts."""
        if self.state == "elsewhere":
            return time.time() - float(self.begun["began"]) > LONGEST
        return self.state in ("ended", "lost")

    @property
    def process(self) -> Any:
        """The `psutil.Process` that keeps the job; None where it has gone, even if its number is in use again."""
        import psutil

        with suppress(psutil.Error, OSError, KeyError, TypeError, ValueError):
            process = psutil.Process(int(self.begun["pid"]))
            same = process_key(process.pid) == self.begun["started"]
            if same and process.uids().real == os.getuid():
                return None if process.status() == psutil.STATUS_ZOMBIE else process
        return None


def list_jobs(logs_folder: Path) -> list[Job]:
    """Return the jobs whose logs are in a folder, newest first; folders of other users are ignored.

    Raises:
        OSError: the folder cannot be read, or other users could replace logs in it.
    """
    try:
        require_private_folder(logs_folder)
        folders = [folder for folder in logs_folder.iterdir() if is_own(folder)]
    except FileNotFoundError:
        return []
    read = (read_job(folder) for folder in folders)
    found = [job for job in read if job is not None]
    return sorted(found, key=lambda job: job.begun["began"], reverse=True)


def is_own(folder: Path) -> bool:
    """Whether a folder is this user's, only this user can write to it, and it is no link."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    private = not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and private


def read_job(folder: Path) -> Job | None:
    """Read the log folder of a job; None if it is incomplete or malformed."""
    begun = read_json(folder / BEGUN)
    if begun is None or not isinstance(begun.get("began"), (int, float)):
        return None
    return Job(folder, begun, read_json(folder / ENDED))


def read_json(path: Path) -> dict[str, Any] | None:
    """Read a JSON object from a file; None if it cannot be read or is something else."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def select_job(logs_folder: Path, name: str | None) -> Job:
    """Return the job with this name, or the only one whose name contains it; the newest if `name` is None.

    Raises:
        NoSuchJobError: there is none, or there are several.
        OSError: as `list_jobs`.
    """
    if name == "":
        raise NoSuchJobError("the name of the job is empty")
    known = list_jobs(logs_folder)
    fitting = [job for job in known if name is None or name in job.name]
    exact = [job for job in known if job.name == name]
    if exact or (fitting and name is None):
        return (exact or fitting)[0]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        names = ", ".join(job.name for job in fitting[:5])
        raise NoSuchJobError(f"{name}: several jobs are called so: {names}")
    said = "there is no job" if name is None else f"{name}: there is no such job"
    raise NoSuchJobError(f"{said} in {logs_folder}")


# What it has said


@dataclass(frozen=True)
class OutputLine:
    """A line of a rank's output, and when it came, in seconds since 1970."""

    time: float
    rank: int
    text: str


WHEN = attrgetter("time")


def ranks_of(folder: Path) -> list[int]:
    """Return the ranks whose output is in a job's folder, sorted."""
    found = (re.fullmatch(r"rank-(\d+)\.txt", path.name) for path in folder.glob("rank-*.txt"))
    return sorted(int(match[1]) for match in found if match)


def output_lines(job: Job, rank: int | None = None) -> Iterator[OutputLine]:
    """Yield the output so far, of all ranks or of one, in the order in which it came."""
    ranks = ranks_of(job.folder) if rank is None else [rank]
    # By time alone: a rank's lines of one moment stay in their order.
    yield from heapq.merge(*(_lines_of(job.folder, each) for each in ranks), key=WHEN)


def _lines_of(folder: Path, rank: int) -> Iterator[OutputLine]:
    """Yield the lines of one rank's output; those of the rotated file come first."""
    for before in (True, False):
        with (
            suppress(OSError),
            rank_file(folder, rank, before=before).open(
                encoding="utf-8", errors="replace", newline="\n"
            ) as file,
        ):
            yield from (said for line in file if (said := parse_line(rank, line)) is not None)


def parse_line(rank: int, line: str) -> OutputLine | None:
    """Parse a line of a rank's file; None if it is malformed."""
    match = LINE.fullmatch(line.removesuffix("\n"))
    return None if match is None else OutputLine(float(match[1]), rank, match[2])


def follow_output(job: Job, rank: int | None = None) -> Iterator[OutputLine]:
    """Yield the output of all ranks or of one so far, then new lines as they come, until the job has ended."""
    tails: dict[int, Tail] = {}
    with ExitStack() as opened:
        while True:
            now = read_job(job.folder) or job
            over = now.state in ("ended", "lost")  # what is read after this is all there is
            for each in ranks_of(job.folder):
                if each not in tails and rank in (None, each):
                    tails[each] = opened.enter_context(closing(Tail(job.folder, each)))
            said = (line for tail in tails.values() for line in tail.read_lines())
            yield from sorted(said, key=WHEN)
            if over:
                return
            time.sleep(PAUSE)


class Tail:
    """Reads new lines of a rank's file, which may be started again meanwhile."""

    def __init__(self, folder: Path, rank: int) -> None:
        self._folder, self._rank = folder, rank
        self._file: IO[bytes] | None = None
        self._rest = b""

    def read_lines(self) -> list[OutputLine]:
        """Return the complete lines that were written since the last call."""
        current, old = (rank_file(self._folder, self._rank, before=b) for b in (False, True))
        data = self._rest
        with suppress(OSError):
            data += old.read_bytes() if self._file is None else self._file.read()
        with suppress(OSError):
            if self._file is None or os.fstat(self._file.fileno()).st_ino != current.stat().st_ino:
                self.close()
                self._file = current.open("rb")
                data += self._file.read()
        *lines, self._rest = data.split(b"\n")
        read = (parse_line(self._rank, line.decode(errors="replace")) for line in lines)
        return [said for said in read if said is not None]

    def close(self) -> None:
        """Close the rank's file."""
        if self._file is not None:
            self._file.close()


# Stop


def stop_job(job: Job, report: Callable[[str], None] = lambda _: None) -> bool:
    """End a running job with all its processes; return whether it was running.

    SIGTERM lets its command clean up. If this takes longer than `PATIENCE` seconds, `report` is called with a
    sentence and the command is killed; the process reaper then cleans up.

    Raises:
        NoSuchJobError: the job runs on another host.
    """
    if job.state == "elsewhere":
        raise NoSuchJobError(f"{job.name} was started on {job.begun.get('host')}: stop it there")
    import psutil

    process = job.process if job.state == "runs" else None
    if process is None:
        return False
    with suppress(psutil.NoSuchProcess):  # also where another process bears its number now
        process.terminate()
        if not _ends(job):
            report(f"it does not end within {PATIENCE:g} s, and is killed")
            process.kill()
            _ends(job)
    return True


def _ends(job: Job) -> bool:
    """Wait at most `PATIENCE` seconds for the process of a job to end; return whether it did."""
    until = time.monotonic() + PATIENCE
    while job.process is not None and time.monotonic() < until:
        time.sleep(PAUSE)
    return job.process is None
