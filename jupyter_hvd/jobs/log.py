"""Writes the log of a job: a folder with what ran, who can stop it, each rank's output, and how it ended."""

from __future__ import annotations

import json
import os
import platform
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from ..files import UnusableInputError, write_atomically
from ..package_versions import computing_versions

#: How many ended jobs are kept in the folder that is used where none is named.
KEPT = 20
#: Bytes of a rank's file, after which it is begun anew, and of all ranks' together; the files before are kept.
LARGEST, TOGETHER = 10 * 2**20, 64 * 2**20
#: The files of a log. A rank's are `rank-0.txt`, and `rank-0.before.txt` where that has grown too large.
BEGUN, ENDED, STALLS = "job.json", "end.json", "stalls.txt"
#: Options whose values are nobody's business, as `--api-key=1234` or `--token 1234`.
SECRET = re.compile(r"-.*(key|token|secret|passw|credential|auth)", re.IGNORECASE)
HIDDEN = "HIDDEN"
#: Names the folder of all logs, where no option does.
PLACE_VARIABLE = "JUPYTER_HVD_JOBS"


def default_logs_folder() -> Path:
    """Return the folder of all jobs' logs: from the environment, else in Jupyter's data folder."""
    from jupyter_core.paths import jupyter_data_dir

    named = os.environ.get(PLACE_VARIABLE)
    if named:
        return Path(named)
    return Path(jupyter_data_dir()) / "jupyter-hvd" / "jobs"


def rank_file(folder: Path, rank: int, *, before: bool = False) -> Path:
    """Return the file with a rank's output, or the older, rotated one."""
    return folder / f"rank-{rank}{'.before' if before else ''}.txt"


class JobLog:
    """The log of one job, in a folder that only this user can look into.

    Where it cannot be written any more, it is given up: the job goes on.

    Attributes:
        folder: of this job, new. name: the job's, for `jupyter hvd logs`. given_up: why, "" as long as it is written.
    """

    def __init__(self, logs_folder: Path, file: Path, size: int, words: Sequence[str]) -> None:
        """Begin it.

        Args:
            logs_folder: the folder of all logs. file: what is run, on `size` ranks. words: of the command.

        Raises:
            OSError: it cannot be written.
        """
        stem = re.sub(r"[^A-Za-z0-9_]+", "_", file.stem)[:40]
        stamp = time.strftime("%Y%m%d-%H%M%S")
        self.name = f"{stamp}-{stem}-{secrets.token_hex(2)}"
        self.folder = logs_folder / self.name
        self.given_up = ""
        self._streams: dict[int, IO[str]] = {}
        self._largest = min(LARGEST, max(2**16, TOGETHER // max(1, size)))
        logs_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        require_private_folder(logs_folder)
        self.folder.mkdir(mode=0o700)
        begun = {
            "name": self.name,
            "file": str(file.resolve()),
            "ranks": size,
            "command": list(without_secrets(words)),
            "folder": os.getcwd(),  # noqa: PTH109 — as the user's shell names it
            "began": time.time(),
            "host": os.uname().nodename,
            "pid": os.getpid(),
            "started": process_key(os.getpid()),
            "versions": {"python": platform.python_version(), **computing_versions()},
        }
        self._write_file(BEGUN, begun)

    def _write_file(self, name: str, content: dict[str, Any]) -> None:
        """Write a JSON file into the log's folder atomically."""
        write_atomically(self.folder / name, json.dumps(content, indent=2).encode() + b"\n")

    def add_output(self, rank: int, text: str) -> None:
        """Append a line of a rank's output, with the time; give the log up if it cannot be written."""
        if self.given_up:
            return
        try:
            stream = self._rank_stream(rank)
            stream.write(f"{time.time():.3f} {text}\n")
            stream.flush()
        except OSError as error:
            self.given_up = f"{self.folder}: {error.strerror}"

    def _rank_stream(self, rank: int) -> IO[str]:
        """Return the open file of a rank's output; rotate it if it is too large."""
        stream = self._streams.get(rank)
        if stream is not None and stream.tell() > self._largest:
            stream.close()
            rank_file(self.folder, rank).replace(rank_file(self.folder, rank, before=True))
            stream = None
        if stream is None:
            path = rank_file(self.folder, rank)
            stream = path.open("a", encoding="utf-8", errors="backslashreplace", newline="\n")
            self._streams[rank] = stream
        return stream

    def note_stall(self, lines: Sequence[str]) -> None:
        """Append the ranks' positions during a stall; called from another thread."""
        with (
            suppress(OSError),
            (self.folder / STALLS).open("a", encoding="utf-8", errors="backslashreplace") as file,
        ):
            file.write("\n".join([time.strftime("%Y-%m-%d %H:%M:%S"), *lines, "", ""]))

    def note_end(self, code: int, rank: int | None, report: str) -> None:
        """Record how the job ended, as in `JobResult`, and close the files."""
        for stream in self._streams.values():
            with suppress(OSError):
                stream.close()
        try:
            self._write_file(
                ENDED, {"ended": time.time(), "code": code, "rank": rank, "report": report}
            )
        except (
            OSError,
            UnusableInputError,
        ) as error:  # how the job ended is worth more than its log
            self.given_up = self.given_up or str(error)


def require_private_folder(folder: Path) -> None:
    """Check that no user but this one and root can replace entries of a folder.

    Raises:
        OSError: others can.
    """
    found = folder.stat()
    shared = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not found.st_mode & stat.S_ISVTX
    if shared or found.st_uid not in (0, os.getuid()):
        raise OSError(
            f"{folder}: other users may change the files in this folder; choose one that only you can write to"
        )


def process_key(pid: int) -> str:
    """Return a key that no other process has, even one with the same number later, or after the clock changes.

    Raises:
        OSError, psutil.Error: there is no such process.
    """
    import psutil

    try:
        ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
        return f"{Path('/proc/sys/kernel/random/boot_id').read_text().strip()} {ticks}"
    except FileNotFoundError:  # no Linux, or no such process
        return str(psutil.Process(pid).create_time())


def without_secrets(words: Sequence[str]) -> Iterator[str]:
    """Yield the words of a command, with `HIDDEN` in place of the values of options that are named like secrets."""
    hidden = False
    for word in words:
        name, equals, _ = word.partition("=")
        if hidden and not word.startswith("--"):
            yield HIDDEN
            hidden = False
            continue
        hidden = bool(SECRET.match(name)) and not equals
        yield f"{name}={HIDDEN}" if equals and SECRET.match(name) else word


def remove_oldest(folders: Sequence[Path]) -> None:
    """Delete the logs of all but the newest `KEPT` ended jobs; the folders come newest first."""
    for folder in folders[KEPT:]:
        shutil.rmtree(folder, ignore_errors=True)
