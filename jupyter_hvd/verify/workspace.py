"""Working folders: copies of the files beside a program, which it may change freely."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ..files import UnusableInputError

#: Where a rank reads which folders are its own, as JSON (`prepare_working_folders`).
ORDERS_VARIABLE = "JUPYTER_HVD_FOLDERS"
#: More than this is copied only for one who was asked.
MAX_BYTES = 1024**3
MAX_FILES = 20_000
#: Folders that hold nothing of the user's own, beside hidden ones and virtual environments.
LEFT_OUT = frozenset({"__pycache__", "node_modules", "lost+found"})
#: Linux: let a new file share the blocks of another, until one of them is written to.
FICLONE = 0x40049409
#: Size, time of the last change and inode of each file: what tells that it is no longer the same.
State = dict[str, tuple[int, int, int]]


@dataclass(frozen=True)
class Entry:
    """A file or folder to copy.

    Attributes:
        path: relative to the copied folder. source: the file to read.
        link: the target of a link within that folder; None for anything else.
    """

    path: Path
    source: Path
    status: os.stat_result
    link: str | None = None

    @property
    def is_folder(self) -> bool:
        """Whether the entry is a folder, and no link to one."""
        return self.link is None and stat.S_ISDIR(self.status.st_mode)

    @property
    def is_file(self) -> bool:
        """Whether the entry is a regular file, and no link to one."""
        return self.link is None and stat.S_ISREG(self.status.st_mode)


def is_ignored(name: str) -> bool:
    """Whether a file or folder is neither copied nor watched: hidden files and caches."""
    return name.startswith(".") or name in LEFT_OUT


def list_entries(folder: Path, besides: Path | None = None) -> Iterator[Entry]:
    """List the files and folders below a folder, each folder before its contents.

    Links that lead out of the folder are followed, since writing through them would change the user's files.
    Unreadable files are left out, and so are devices, sockets and the like.

    Args:
        besides: a folder to leave out.
    """
    root = folder.resolve()
    return _walk_entries(root, Path(), root, (root,), besides)


def _walk_entries(
    root: Path, relative: Path, folder: Path, above: tuple[Path, ...], besides: Path | None
) -> Iterator[Entry]:
    """Yield the entries below `folder`, a folder that is `relative` to the root.

    Args:
        above: the real paths of the enclosing folders, so that no link is followed in a circle.
    """
    found: list[Path] = []
    with suppress(OSError):
        found = sorted(folder.iterdir())
    for source in found:
        if is_ignored(source.name) or source == besides:
            continue
        try:
            is_link, real = source.is_symlink(), source.resolve(strict=True)
            status = real.stat()
        except (OSError, RuntimeError):  # it has gone, or is a link that leads nowhere
            continue
        path = relative / source.name
        if is_link and (inside := _relative_to_root(real, root)) is not None:
            yield Entry(path, source, status, os.path.relpath(inside, relative))
        elif stat.S_ISREG(status.st_mode):
            yield Entry(path, source, status)
        elif is_copied_folder(real, status) and real not in above:
            yield Entry(path, source, status)
            yield from _walk_entries(root, path, source, (*above, real), besides)


def is_copied_folder(path: Path, status: os.stat_result) -> bool:
    """Whether a path is a folder whose contents are copied: any but a virtual environment."""
    return stat.S_ISDIR(status.st_mode) and not (path / "pyvenv.cfg").exists()


def _relative_to_root(real: Path, root: Path) -> Path | None:
    """Return a file's path relative to the copied folder; None where the file is not copied."""
    if not real.is_relative_to(root) or any(map(is_ignored, real.relative_to(root).parts)):
        return None
    return real.relative_to(root)


@dataclass(frozen=True)
class CopySize:
    """How much there is to copy. Counting may have stopped early where it is too much."""

    bytes: int
    files: int

    @property
    def is_large(self) -> bool:
        """Whether there are more bytes or files than are copied without being asked for."""
        return self.bytes > MAX_BYTES or self.files > MAX_FILES


def measure_folder(folder: Path, besides: Path | None = None, *, whole: bool = False) -> CopySize:
    """Count the files and bytes to copy.

    Args:
        whole: continue to count where it is too much to be copied without asking.
    """
    size = CopySize(0, 0)
    for entry in list_entries(folder, besides):
        size = CopySize(size.bytes + entry.status.st_size * entry.is_file, size.files + 1)
        if size.is_large and not whole:
            break
    return size


def make_copy(folder: Path, target: Path, besides: Path | None = None) -> None:
    """Copy a folder's contents to a new folder.

    Raises:
        OSError: there is no room.
    """
    target.mkdir()
    for entry in list_entries(folder, besides):
        place = target / entry.path
        if entry.is_folder:
            place.mkdir()
        elif entry.link is not None:
            place.symlink_to(entry.link)
        else:
            with suppress(
                PermissionError, FileNotFoundError
            ):  # the program could not read it either
                _copy_file(entry.source, place)


def _copy_file(source: Path, target: Path) -> None:
    """Copy a file with its times; share the data blocks (reflink) where the file system can."""
    with source.open("rb") as read, target.open("wb") as write:
        try:
            fcntl.ioctl(write.fileno(), FICLONE, read.fileno())
        except OSError:  # another file system, or one that cannot
            shutil.copyfileobj(read, write, 1024 * 1024)
    shutil.copystat(source, target)


def read_folder_state(folder: Path, besides: Path | None = None) -> State:
    """Return the state of the files that are copied."""
    return _file_states((e.path, e.status) for e in list_entries(folder, besides) if e.is_file)


def read_working_state(folder: Path) -> State:
    """Return the state of all files in a working folder, including hidden ones; links are not followed."""
    return _file_states(_iterate_files(folder))


def _iterate_files(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield the regular files below a folder, relative to it, with their status."""
    for path in folder.rglob("*"):
        with suppress(OSError):  # a program that runs may remove it meanwhile
            status = path.lstat()
            if stat.S_ISREG(status.st_mode):
                yield path.relative_to(folder), status


def _file_states(files: Iterable[tuple[Path, os.stat_result]]) -> State:
    """Return size, time of change and inode of each file, by its path."""
    return {str(path): (s.st_size, s.st_mtime_ns, s.st_ino) for path, s in files}


def list_changed_files(before: State, after: State) -> list[str]:
    """Return the files that are new, deleted or changed."""
    return sorted(path for path in {*before, *after} if before.get(path) != after.get(path))


class UnconfirmedError(Exception):
    """Raised where there are many files to copy; the message says how many, and asks the user to confirm."""


def check_room(beside: Path, own: Path, *, copies: int, confirmed: bool) -> None:
    """Check that the files beside the program can be copied.

    Raises:
        UnconfirmedError: there are many files to copy, and the user has not agreed.
        UnusableInputError: there is no room.
    """
    size = measure_folder(beside, own, whole=confirmed)
    free = shutil.disk_usage(own).free
    if size.bytes * copies > free:
        raise UnusableInputError(
            f"{copies} copies of {beside} do not fit into {own.parent}, where {free / 1e9:.1f} GB are free;"
            " set TMPDIR, or put the program into a folder with what it needs"
        )
    if size.is_large and not confirmed:
        raise UnconfirmedError(
            f"{beside} holds more than {size.bytes / 1e9:.1f} GB in {size.files} files, and each of"
            f" {copies} processes works on a copy, in {own.parent}"
        )


def prepare_working_folders(
    folder: Path, beside: Path, *, ranks: int, own: Path | None = None
) -> dict[str, str]:
    """Create a working folder for each rank and one for temporary files; return the environment that names them to the ranks.

    TensorFlow writes compiled code to temporary files, and a rank that is ended early leaves them.

    Args:
        folder: where the ranks work and leave their records.
        beside: the program's folder. Each rank gets a copy of its contents; the folder itself is not changed.
        own: a folder that belongs to this job, wherever it is; `folder` if None.

    Raises:
        OSError: there is no room for the copies.
    """
    own = own or folder
    for rank in range(ranks):
        make_copy(beside, working_folder(folder, rank), own)
    temporary = folder / "temporary"
    temporary.mkdir(exist_ok=True)
    wanted = {
        "folder": str(folder),
        "beside": str(beside.resolve()),
        "own": str(own),
        "temporary": tempfile.gettempdir(),
    }
    return {ORDERS_VARIABLE: json.dumps(wanted), "TMPDIR": str(temporary)}


def working_folder(folder: Path, rank: int) -> Path:
    """Return the path of the folder in which a rank works; `prepare_working_folders` creates it."""
    return folder / f"cwd-{rank}"
