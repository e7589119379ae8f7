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

#: Where a rank reads which folders are its own, as JSON (`make_orders`).
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
    """A file or folder to be copied.

    Attributes:
        path: relative to the folder that is copied. source: what it is read from.
        link: for a link within that folder, where it leads; None for everything else.
    """

    path: Path
    source: Path
    status: os.stat_result
    link: str | None = None

    @property
    def is_folder(self) -> bool:
        return self.link is None and stat.S_ISDIR(self.status.st_mode)

    @property
    def is_file(self) -> bool:
        return self.link is None and stat.S_ISREG(self.status.st_mode)


def is_left_out(name: str) -> bool:
    """Whether a file or folder is neither copied nor looked after: hidden ones and caches."""
    return name.startswith(".") or name in LEFT_OUT


def list_entries(folder: Path, besides: Path | None = None) -> Iterator[Entry]:
    """The files and folders below a folder, each folder before what is in it.

    Links that lead out of the folder are followed, since nothing may be written through them.
    What cannot be read, and what is neither file nor folder, is left out.

    Args:
        besides: a folder to leave out.
    """
    root = folder.resolve()
    return _walk_entries(root, Path(), root, (root,), besides)


def _walk_entries(
    root: Path, relative: Path, place: Path, above: tuple[Path, ...], besides: Path | None
) -> Iterator[Entry]:
    found: list[Path] = []
    with suppress(OSError):
        found = sorted(place.iterdir())
    for source in found:
        if is_left_out(source.name) or source == besides:
            continue
        try:
            is_link, real = source.is_symlink(), source.resolve(strict=True)
            status = real.stat()
        except (OSError, RuntimeError):  # it has gone, or is a link that leads nowhere
            continue
        path = relative / source.name
        if is_link and (inside := _place_inside(real, root)) is not None:
            yield Entry(path, source, status, os.path.relpath(inside, relative))
        elif stat.S_ISREG(status.st_mode):
            yield Entry(path, source, status)
        elif is_entered(real, status) and real not in above:
            yield Entry(path, source, status)
            yield from _walk_entries(root, path, source, (*above, real), besides)


def is_entered(path: Path, status: os.stat_result) -> bool:
    """Whether it is a folder, and not a virtual environment."""
    return stat.S_ISDIR(status.st_mode) and not (path / "pyvenv.cfg").exists()


def _place_inside(real: Path, root: Path) -> Path | None:
    """The place of a file below the folder that is copied, None where it is not copied."""
    if not real.is_relative_to(root) or any(map(is_left_out, real.relative_to(root).parts)):
        return None
    return real.relative_to(root)


@dataclass(frozen=True)
class Size:
    """How much is to be copied; where it is too much, counting may have ended early."""

    bytes: int
    files: int

    @property
    def is_large(self) -> bool:
        return self.bytes > MAX_BYTES or self.files > MAX_FILES


def measure_folder(folder: Path, besides: Path | None = None, *, whole: bool = False) -> Size:
    """How much there is to copy.

    Args:
        whole: count on where it is too much to be copied without asking.
    """
    size = Size(0, 0)
    for entry in list_entries(folder, besides):
        size = Size(size.bytes + entry.status.st_size * entry.is_file, size.files + 1)
        if size.is_large and not whole:
            break
    return size


def make_copy(folder: Path, target: Path, besides: Path | None = None) -> None:
    """Copy what is below a folder into a new one.

    Raises:
        OSError: there is no room for it.
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
    with source.open("rb") as read, target.open("wb") as write:
        try:
            fcntl.ioctl(write.fileno(), FICLONE, read.fileno())
        except OSError:  # another file system, or one that cannot
            shutil.copyfileobj(read, write, 1024 * 1024)
    shutil.copystat(source, target)


def state_beside(folder: Path, besides: Path | None = None) -> State:
    """The state of the files that are copied."""
    return _file_states((e.path, e.status) for e in list_entries(folder, besides) if e.is_file)


def state_within(folder: Path) -> State:
    """The state of all files in a working folder, hidden ones too; links are not its own."""
    return _file_states(_files_within(folder))


def _files_within(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for path in folder.rglob("*"):
        with suppress(OSError):  # a program that runs may remove it meanwhile
            status = path.lstat()
            if stat.S_ISREG(status.st_mode):
                yield path.relative_to(folder), status


def _file_states(files: Iterable[tuple[Path, os.stat_result]]) -> State:
    return {str(path): (s.st_size, s.st_mtime_ns, s.st_ino) for path, s in files}


def changed_files(before: State, after: State) -> list[str]:
    """The files that are new, gone or no longer the same."""
    return sorted(path for path in {*before, *after} if before.get(path) != after.get(path))


class UnconfirmedError(Exception):
    """There is much to copy; the message says how much, for the user to say whether it is meant."""


def check_room(beside: Path, own: Path, *, copies: int, confirmed: bool) -> None:
    """See to it that the files beside the program can be copied.

    Raises:
        UnconfirmedError: there is much to copy, and the user has not been asked.
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


def make_orders(
    folder: Path, beside: Path, *, ranks: int, own: Path | None = None
) -> dict[str, str]:
    """Make a working folder for each rank, one for temporary files, and the environment that tells a rank of them.

    What TensorFlow compiles it writes to temporary files first, and a rank that is ended leaves them.

    Args:
        folder: where the ranks work and leave their records.
        beside: the folder of the program. Each rank has a copy of what is in it; it is not touched.
        own: a folder that belongs to this job, wherever it lies; `folder` if None.

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
    """Where a rank works: a copy of the files beside the program, made before it starts."""
    return folder / f"cwd-{rank}"
