"""Temporary files that a killed rank could not remove go with its job.

TensorFlow writes what it compiles into `/tmp` and removes it when the process ends in order; ranks of a job that is
ended do not. So each rank notes such files in the job's private folder, and whoever removes that folder removes them too.
Files that the user's own code is to remove (`tempfile.mkdtemp()`) are not noted: a kernel or another job may read them.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from contextlib import suppress
from importlib.util import cache_from_source
from pathlib import Path
from types import FrameType
from typing import Any

from . import lifeline
from .library_code import is_library

#: Names the folder of the notes to a rank.
NOTES_VARIABLE = "JUPYTER_HVD_TEMPORARY"
#: That folder within the job's private one.
NOTES = "temporary-files"
EVENTS = ("tempfile.mkstemp", "tempfile.mkdtemp")
#: Functions of `tempfile` that remove what they make, unless they are told not to.
REMOVING = ("TemporaryFile", "NamedTemporaryFile", "__init__")


class TemporaryFiles:
    """Notes what libraries make with `tempfile` in this process and its forks, by Python's audit events.

    When the process ends in order they have removed what they wanted to, and the notes go. When the job's launcher has
    gone, on whatever host, the process removes the files itself.
    """

    def __init__(self, folder: str | None) -> None:
        self._folder = tempfile.gettempdir()
        self._owner = os.getpid()
        self._paths: list[str] = []
        name = f"{os.uname().nodename}-{self._owner}"
        # The job's folder is on this host, or on a disk that it shares; the name tells whose files these are.
        self._notes = Path(folder, name) if folder and os.path.isdir(folder) else None  # noqa: PTH112
        atexit.register(self._forget)
        lifeline.before_end.append(self._remove)
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in EVENTS:
            with suppress(Exception):  # it would be the program's
                self._note(os.fsdecode(arguments[0]), sys._getframe(1))

    def _note(self, path: str, frame: FrameType | None) -> None:
        if not path.startswith(self._folder + os.sep) or os.path.lexists(path):
            return
        if is_left_to_user(frame):
            return
        self._paths.append(path)
        if (
            self._notes is not None
        ):  # opened each time: programs close descriptors that they do not know
            with self._notes.open("ab") as file:
                file.write(os.fsencode(path) + b"\0")

    def _forget(self) -> None:
        if os.getpid() != self._owner:
            return
        for path in self._paths:
            remove_bytecode(path)
        if self._notes is not None:
            self._notes.unlink(missing_ok=True)

    def _remove(self) -> None:
        if os.getpid() == self._owner:
            for path in self._paths:
                remove(path)


def is_left_to_user(frame: FrameType | None) -> bool:
    """Whether the user's own code is to remove what this frame of `tempfile` makes."""
    while frame is not None and frame.f_code.co_filename == tempfile.__file__:
        if frame.f_code.co_name in REMOVING and frame.f_locals.get("delete", True):
            return False
        frame = frame.f_back
    return frame is not None and not is_library(frame.f_code.co_filename)


def note_temporary_files() -> None:
    """Note them from now on."""
    TemporaryFiles(os.environ.get(NOTES_VARIABLE))


def make_notes_folder(folder: Path) -> dict[str, str]:
    """Make a place for the ranks' notes in a job's private folder; the variable that names it."""
    notes = folder / NOTES
    notes.mkdir(mode=0o700, exist_ok=True)
    return {NOTES_VARIABLE: str(notes)}


def remove_noted(folder: Path) -> None:
    """Remove the temporary files that ranks on this host have left, by their notes in a job's private folder."""
    for notes in (folder / NOTES).glob(f"{os.uname().nodename}-*"):
        with suppress(OSError):
            for path in notes.read_bytes().split(b"\0"):
                if path:
                    remove(os.fsdecode(path))


def remove(path: str) -> None:
    """Remove a file or folder."""
    with suppress(OSError):
        if os.path.isdir(path) and not os.path.islink(path):  # noqa: PTH112, PTH114
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.unlink(path)  # noqa: PTH108
    remove_bytecode(path)


def remove_bytecode(path: str) -> None:
    """Remove what Python has compiled a module to that is there no more; TensorFlow leaves it."""
    if path.endswith(".py") and not os.path.exists(path):  # noqa: PTH110
        compiled = Path(cache_from_source(path))
        with suppress(OSError):
            compiled.unlink()
            compiled.parent.rmdir()
