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

from .log import BEGUN, ENDED, process_key, rank_file, require_safe

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
        return self.folder.name

    @property
    def state(self) -> State:
        """ "lost": it was killed, and could not say how it ended; "elsewhere": another host knows."""
        if self.ended is not None:
            return "ended"
        if self.begun.get("host") != os.uname().nodename:
            return "elsewhere"
        return "runs" if self.process is not None else "lost"

    @property
    def is_past(self) -> bool:
        """Whether it has come to its end; of one of another host that is so after a time that no job lasts."""
        if self.state == "elsewhere":
            return time.time() - float(self.begun["began"]) > LONGEST
        return self.state in ("ended", "lost")

    @property
    def process(self) -> Any:
        """The process that keeps the job, None where it has gone: another may bear its number now."""
        import psutil

        with suppress(psutil.Error, OSError, KeyError, TypeError, ValueError):
            process = psutil.Process(int(self.begun["pid"]))
            same = process_key(process.pid) == self.begun["started"]
            if same and process.uids().real == os.getuid():
                return None if process.status() == psutil.STATUS_ZOMBIE else process
        return None


def list_jobs(place: Path) -> list[Job]:
    """The jobs whose logs are in a folder, the newest first; what others have put there is not read.

    Raises:
        OSError: it cannot be read, or others could put what they want in the place of a log.
    """
    try:
        require_safe(place)
        folders = [folder for folder in place.iterdir() if is_own(folder)]
    except FileNotFoundError:
        return []
    read = (job_in(folder) for folder in folders)
    found = [job for job in read if job is not None]
    return sorted(found, key=lambda job: job.begun["began"], reverse=True)


def is_own(folder: Path) -> bool:
    """Whether a folder is this user's and nobody else can write to it, and is no link."""
    try:
        found = folder.lstat()
    except OSError:
        return False
    private = not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and private


def job_in(folder: Path) -> Job | None:
    begun = read_json(folder / BEGUN)
    if begun is None or not isinstance(begun.get("began"), (int, float)):
        return None
    return Job(folder, begun, read_json(folder / ENDED))


def read_json(path: Path) -> dict[str, Any] | None:
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return content if isinstance(content, dict) else None


def job_named(place: Path, name: str | None) -> Job:
    """The job of a name, or of a part of it that no other has; the newest where none is said.

    Raises:
        NoSuchJobError
        OSError: as `list_jobs`.
    """
    if name == "":
        raise NoSuchJobError("the name of the job is empty")
    known = list_jobs(place)
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
    raise NoSuchJobError(f"{said} in {place}")


# What it has said


@dataclass(frozen=True)
class OutputLine:
    """A line of a rank's output, and when it came, in seconds since 1970."""

    time: float
    rank: int
    text: str


WHEN = attrgetter("time")


def ranks_of(folder: Path) -> list[int]:
    found = (re.fullmatch(r"rank-(\d+)\.txt", path.name) for path in folder.glob("rank-*.txt"))
    return sorted(int(match[1]) for match in found if match)


def output_lines(job: Job, rank: int | None = None) -> Iterator[OutputLine]:
    """The output of the ranks until now, or of one of them, in the order in which it came."""
    ranks = ranks_of(job.folder) if rank is None else [rank]
    # By time alone: a rank's lines of one moment stay in their order.
    yield from heapq.merge(*(_lines_of(job.folder, each) for each in ranks), key=WHEN)


def _lines_of(folder: Path, rank: int) -> Iterator[OutputLine]:
    for before in (True, False):
        with (
            suppress(OSError),
            rank_file(folder, rank, before=before).open(
                encoding="utf-8", errors="replace", newline="\n"
            ) as file,
        ):
            yield from (said for line in file if (said := parse_line(rank, line)) is not None)


def parse_line(rank: int, line: str) -> OutputLine | None:
    match = LINE.fullmatch(line.removesuffix("\n"))
    return None if match is None else OutputLine(float(match[1]), rank, match[2])


def follow_output(job: Job, rank: int | None = None) -> Iterator[OutputLine]:
    """The output of the ranks so far, then as it comes, until the job has ended."""
    tails: dict[int, Tail] = {}
    with ExitStack() as opened:
        while True:
            now = job_in(job.folder) or job
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
        """The whole lines that have come since the last time."""
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
        if self._file is not None:
            self._file.close()


# Stop


def stop_job(job: Job, told: Callable[[str], None] = lambda _: None) -> bool:
    """End a job that runs, with all that belongs to it; whether there was anything to end.

    Its own command is asked to, by SIGTERM, and cleans up; when it is killed, its reaper does.

    Raises:
        NoSuchJobError: it runs on another host.
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
            told(f"it does not end within {PATIENCE:g} s, and is killed")
            process.kill()
            _ends(job)
    return True


def _ends(job: Job) -> bool:
    """Whether the process of a job ends within `PATIENCE` seconds."""
    until = time.monotonic() + PATIENCE
    while job.process is not None and time.monotonic() < until:
        time.sleep(PAUSE)
    return job.process is None
