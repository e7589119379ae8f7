"""Removes the temporary files of killed ranks when their job ends.

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
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import cache_from_source
from pathlib import Path
from types import FrameType
from typing import Any

from . import heartbeat
from .library_code import is_library

#: Names the folder of the notes to a rank.
NOTES_VARIABLE = "JUPYTER_HVD_TEMPORARY"
#: That folder within the job's private one.
NOTES = "temporary-files"
#: After so many notes those of files that have gone are left out.
MOST = 1000
EVENTS = ("tempfile.mkstemp", "tempfile.mkdtemp")
#: Functions of `tempfile` that remove what they make, unless they are told not to.
REMOVING = ("TemporaryFile", "NamedTemporaryFile", "__init__")


class TemporaryFiles:
    """Notes what libraries make with `tempfile` in this process and its forks, by Python's audit events.

    When the process ends in order they have removed what they wanted to, and the notes go. When the job's launcher has
    gone, on whatever host, the process removes the files itself.
    """

    def __init__(self, folder: str | None) -> None:
        self._temporary = tempfile.gettempdir() + os.sep
        # The job's folder may be on a disk that other hosts share: the host is in the name of each file of notes.
        self._folder = Path(folder) if folder and os.path.isdir(folder) else None  # noqa: PTH112
        self._owner = os.getpid()
        self._paths: list[str] = []
        self._most = MOST
        atexit.register(self._forget_notes)
        heartbeat.before_end.append(self._remove_files)
        sys.addaudithook(self._hear_event)

    def _hear_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Note the path of a new temporary file, by Python's audit event."""
        if event in EVENTS:
            with suppress(Exception):  # it would be the program's
                path = os.fsdecode(arguments[0])
                is_new = path.startswith(self._temporary) and not os.path.lexists(path)
                if is_new and not is_left_to_user(sys._getframe(1)):
                    self._note_path(path)

    def _note_path(self, path: str) -> None:
        """Add a path to the notes; now and then they are rewritten without files that are gone."""
        if self._owner != os.getpid():  # a fork, with files of its own
            self._owner, self._paths = os.getpid(), []
        self._paths.append(path)
        if len(self._paths) > self._most:
            self._paths = [path for path in self._paths if os.path.lexists(path)] + [path]
            self._most = max(MOST, 2 * len(self._paths))
            self._write_notes(self._paths, "wb")
        else:
            self._write_notes([path], "ab")

    def _notes_file(self) -> Path | None:
        """Return the file of this process's notes; None if there is no folder for notes."""
        name = f"{os.uname().nodename}-{self._owner}"
        return None if self._folder is None else self._folder / name

    def _write_notes(self, paths: Sequence[str], mode: str) -> None:
        """Write paths to the notes, each ended by a zero byte."""
        notes = self._notes_file()
        if notes is not None:  # opened each time: programs close descriptors that they do not know
            with notes.open(mode) as file:
                file.write(b"".join(os.fsencode(path) + b"\0" for path in paths))

    def _forget_notes(self) -> None:
        """Remove the notes at the process's end in order; leftover bytecode goes, too."""
        if self._owner != os.getpid():
            return
        for path in self._paths:
            remove_bytecode(path)
        notes = self._notes_file()
        if notes is not None:
            notes.unlink(missing_ok=True)

    def _remove_files(self) -> None:
        """Remove all noted files; called when the job's launcher has gone."""
        if self._owner == os.getpid():
            for path in self._paths:
                remove_path(path)


def is_left_to_user(frame: FrameType | None) -> bool:
    """Whether the user's own code must remove the file that this frame of `tempfile` creates."""
    while frame is not None and frame.f_code.co_filename == tempfile.__file__:
        if frame.f_code.co_name in REMOVING and frame.f_locals.get("delete", True):
            return False
        frame = frame.f_back
    return frame is not None and not is_library(frame.f_code.co_filename)


def note_temporary_files() -> None:
    """Record temporary files from now on, if the job has a folder for notes."""
    with suppress(FileNotFoundError):  # there is no folder for them
        TemporaryFiles(os.environ.get(NOTES_VARIABLE))


def make_notes_folder(folder: Path) -> dict[str, str]:
    """Make a folder for the ranks' notes in a job's private folder; return the variable that tells the ranks of it."""
    notes = folder / NOTES
    notes.mkdir(mode=0o700, exist_ok=True)
    return {NOTES_VARIABLE: str(notes)}


def remove_noted(folder: Path) -> None:
    """Remove the temporary files that ranks on this host have left, by their notes in a job's private folder."""
    for notes in (folder / NOTES).glob(f"{os.uname().nodename}-*"):
        with suppress(OSError):
            for path in notes.read_bytes().split(b"\0"):
                if path:
                    remove_path(os.fsdecode(path))


def remove_path(path: str) -> None:
    """Remove a file or folder, if it is there."""
    with suppress(OSError):
        if os.path.isdir(path) and not os.path.islink(path):  # noqa: PTH112, PTH114
            shutil.rmtree(path, ignore_errors=True)
        else:
            os.unlink(path)  # noqa: PTH108
    remove_bytecode(path)


def remove_bytecode(path: str) -> None:
    """Remove the compiled file of a module that no longer exists; TensorFlow leaves such files."""
    if path.endswith(".py") and not os.path.exists(path):  # noqa: PTH110
        compiled = Path(cache_from_source(path))
        with suppress(OSError):
            compiled.unlink()
            compiled.parent.rmdir()
