"""A working copy of the folder for each rank except rank 0, so that only rank 0 writes to the user's folder.

Ranks that run one program as it is write the same files. Rank 0 writes the user's; every other rank works on a copy.
Small files and saved models are copied. Other large files and full folders become symbolic links, each of which is
replaced by a copy before the program writes through it.
"""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

#: Bytes of a file, and of all files together, that are copied at the start; entries of a folder that is not linked.
LARGEST, TOTAL, ENTRIES = 10_000_000, 300_000_000, 1000
#: Saved models are copied up to this size: HDF5 and TensorFlow open them in C++, where no write can be intercepted.
LARGEST_MODEL, ALL_MODELS = 1_000_000_000, 4_000_000_000
MODELS = (".h5", ".hdf5", ".keras", ".pb", ".index", ".ckpt", ".tflite")
#: Folders that no training writes to.
LINKED = (".git", "node_modules", "__pycache__", ".ipynb_checkpoints")
#: What marks others: environments of Python's and conda's, caches of tools.
MARKS = ("pyvenv.cfg", "conda-meta", "CACHEDIR.TAG")
#: Flags of `open` that write.
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
#: Audit events of functions that change what lies in a folder, with the number of paths that they begin with.
CHANGING = {
    "os.rename": 2,
    "os.link": 2,
    "os.remove": 1,
    "os.mkdir": 1,
    "os.rmdir": 1,
    "os.truncate": 1,
    "os.symlink": 2,
    "os.utime": 1,
    "os.chmod": 1,
    "shutil.rmtree": 1,
}
#: Those of them that follow a link, or refuse one.
FOLLOWING = ("os.truncate", "os.utime", "os.chmod", "shutil.rmtree")


def copy_folder(source: Path, target: Path, without: Path, before: Path | None = None) -> None:
    """Make a working copy of a folder.

    Args:
        without: a folder to leave out, with its contents.
        before: an earlier copy, whose unchanged files are moved to the new one; it is unusable afterwards.
    """
    left = {False: TOTAL, True: ALL_MODELS}

    def copy(source: Path, target: Path, before: Path | None) -> None:
        target.mkdir()
        for entry in os.scandir(source):
            path = Path(entry.path)
            if path == without:
                continue
            new, old = target / entry.name, before / entry.name if before else None
            try:
                if entry.is_dir(follow_symlinks=False) and not should_link(path):
                    copy(path, new, old)
                    continue
                is_model = is_saved_model(entry.name)
                largest = min(LARGEST_MODEL if is_model else LARGEST, left[is_model])
                size = entry.stat().st_size if entry.is_file() else largest + 1
                if size <= largest:
                    if old is not None and is_same_file(path, old):
                        old.rename(new)
                    else:
                        shutil.copy2(path, new)
                    left[is_model] -= size
                    continue
            except OSError:  # it may not be read, or is gone
                pass
            if not new.exists():
                new.symlink_to(path)

    copy(source, target, before)


def work_on_copy(copy: Path, without: Path) -> None:
    """Make a working copy of the working folder, and change to it.

    Args:
        copy: the path of the copy.
        without: a folder to leave out, with its contents.
    """
    copy_folder(Path.cwd(), copy, without)
    os.chdir(copy)
    Unlinker(copy)


def renew_copy(source: Path, target: Path, without: Path) -> None:
    """Update the working copy in which this process works; files that only the copy has are removed."""
    here = Path.cwd()
    before = target.with_name(f"{target.name}-before")
    target.rename(before)
    copy_folder(source, target, without, before)
    if here.is_relative_to(target):
        os.chdir(here if here.is_dir() else target)
    shutil.rmtree(before, ignore_errors=True)


def is_same_file(path: Path, copy: Path) -> bool:
    """Whether neither the file nor its copy was written since it was copied."""
    if copy.is_symlink() or not copy.is_file():
        return False
    one, other = path.stat(), copy.stat()
    return (one.st_size, one.st_mtime_ns) == (other.st_size, other.st_mtime_ns)


def should_link(folder: Path) -> bool:
    """Whether ranks share a folder by a symbolic link instead of a copy: caches, environments, and very large folders."""
    if folder.name in LINKED:
        return True
    inside = [entry.name for entry in os.scandir(folder)]
    return len(inside) > ENTRIES or any(mark in inside for mark in MARKS)


def is_saved_model(name: str) -> bool:
    """Whether a file name is one of a saved model."""
    return name.endswith(MODELS) or ".data-0" in name


class Unlinker:
    """Replaces links in a working copy by copies before the program writes through them, with Python's audit events."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._busy = False
        sys.addaudithook(self._hear_event)

    def _hear_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        """Handle an audit event: replace the links that the program is about to write through."""
        if self._busy:
            return
        if event == "open":
            if arguments[2] & WRITING:
                self._unlink_path(arguments[0], truncated=bool(arguments[2] & os.O_TRUNC))
        elif event in CHANGING:
            for path in arguments[: CHANGING[event]]:
                self._unlink_path(
                    path if event in FOLLOWING else parent_folder(path), truncated=False
                )

    def _unlink_path(self, path: Any, truncated: bool) -> None:
        """Replace the links on a path by copies; errors are left to the program's own call."""
        self._busy = True
        try:
            with suppress(OSError, TypeError, ValueError):
                unlink_path(Path(os.path.abspath(os.fsdecode(path))), self.folder, truncated)  # noqa: PTH100
        finally:
            self._busy = False


def parent_folder(path: Any) -> Any:
    """Return the folder of a path in an audit event."""
    if not isinstance(path, str | bytes | os.PathLike):
        return path
    return os.path.dirname(os.path.abspath(os.fsdecode(path)))  # noqa: PTH100, PTH120


def unlink_path(path: Path, folder: Path, truncated: bool) -> None:
    """Replace each link between a folder and a path by a copy.

    Args:
        truncated: the last link's target will be truncated, so that its contents need not be copied.
    """
    if not path.is_relative_to(folder):
        return
    current = folder
    names = path.relative_to(folder).parts
    for depth, name in enumerate(names, 1):
        current /= name
        if not current.is_symlink():
            continue
        source = current.resolve()
        if source.is_relative_to(folder):
            continue
        if source.is_dir():
            made = current.with_name(f".{name}.unlinked")
            made.mkdir()
            for entry in os.scandir(source):
                (made / entry.name).symlink_to(entry.path)
            current.unlink()
            made.rename(current)
        elif depth == len(names) and source.exists():
            current.unlink()
            if truncated:
                current.touch()
            else:
                shutil.copy2(source, current)
