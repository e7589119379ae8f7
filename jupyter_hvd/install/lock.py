"""Lets one process at a time build a kind of wheel; the others report which process they wait for."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from .pip import Listener

#: Seconds between two looks whether the other process is done.
PAUSE = 0.5


@contextmanager
def hold_lock(path: Path, listener: Listener) -> Iterator[Listener]:
    """Wait for the lock and hold it during a block; report the process that holds it to the listener.

    Yields a listener that also writes this process's progress to the lock, for those who wait. The system frees
    the lock when its holder ends for any reason.
    """
    with path.open("a+") as file:
        while not _take_lock(file):
            listener(*_read_holder(path))
            time.sleep(PAUSE)
        note: dict[str, Any] = {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "since": time.time(),
        }

        def report_step(step: str, share: float) -> None:
            if note.get("share") != share:
                note["share"] = share
                _write_holder(file, json.dumps(note))
            listener(step, share)

        report_step("starting", 0.0)
        try:
            yield report_step
        finally:
            _write_holder(file, "")


def _take_lock(file: IO[str]) -> bool:
    """Try to take the lock without waiting; return whether that succeeded, or the file system has no locks."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # this file system knows no locks: whoever is first to finish leaves the wheel
        return True
    return True


def _write_holder(file: IO[str], text: str) -> None:
    """Replace the description of the lock's holder."""
    file.seek(0)
    file.truncate()
    file.write(text)
    file.flush()


def _read_holder(path: Path) -> tuple[str, float]:
    """Return a description of the process that holds the lock, and the fraction that it has compiled."""
    try:
        note = json.loads(path.read_text())
        since = time.strftime("%H:%M:%S", time.localtime(note["since"]))
        where = "" if note["host"] == socket.gethostname() else f" on {note['host']}"
        return (
            f"waiting for process {note['pid']}{where}, which has been building since {since}",
            note["share"],
        )
    except (OSError, ValueError, KeyError, TypeError):  # it is about to write its note, or to leave
        return "waiting for another process", 0.0
