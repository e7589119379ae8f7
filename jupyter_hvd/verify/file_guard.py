"""Keeps a program under verification from changing the user's files, and notes the files that it writes."""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from .workspace import is_ignored

WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
REFUSAL = (
    "verify works on a copy of the files beside the program and leaves the files themselves alone;"
    " write below the working folder, by a relative path"
)


def _find_written_path(path: Any, _: Any, flags: Any) -> Iterator[tuple[Any, int, bool]]:
    """Yield the path that `open` writes to, the working folder (-1), and True: links are followed.

    Nothing if it only reads.
    """
    if isinstance(flags, int) and flags & WRITING:
        yield path, -1, True


def _find_entry(path: Any, *rest: Any) -> Iterator[tuple[Any, int, bool]]:
    """Yield a directory entry that a call changes, such as `remove`: a link is not followed."""
    yield path, _get_folder_descriptor(rest), False


def _find_new_folder(path: Any, *rest: Any) -> Iterator[tuple[Any, int, bool]]:
    """Yield a folder that a call creates; nothing for an existing one, which stays as it is."""
    if not os.path.isdir(path):  # noqa: PTH112
        yield path, _get_folder_descriptor(rest), False


def _find_target(path: Any, *rest: Any) -> Iterator[tuple[Any, int, bool]]:
    """Yield a path, with its folder's descriptor (-1: the working folder) and True: links are followed."""
    yield path, _get_folder_descriptor(rest), True


def _find_source_and_target(
    source: Any, target: Any, *folders: Any
) -> Iterator[tuple[Any, int, bool]]:
    """Yield both paths of a rename, each with its folder's descriptor (-1: the working folder) and False.

    False says that a link itself is changed, not the file to which it leads.
    """
    yield source, _get_folder_descriptor(folders[:1]), False
    yield target, _get_folder_descriptor(folders[1:]), False


def _find_new_link(_: Any, target: Any, *rest: Any) -> Iterator[tuple[Any, int, bool]]:
    """Yield the path of a new symbolic link, with its folder's descriptor (-1: the working folder) and False."""
    yield target, _get_folder_descriptor(rest), False


def _get_folder_descriptor(rest: tuple[Any, ...]) -> int:
    """Return the descriptor of the folder that a path is relative to; -1 for the working folder."""
    return rest[-1] if rest and isinstance(rest[-1], int) else -1


#: For each event, from its arguments: path, descriptor of the folder that it is relative to, follow a link.
EVENTS: dict[str, Callable[..., Iterator[tuple[Any, int, bool]]]] = {
    "open": _find_written_path,
    "os.chmod": _find_target,
    "os.chown": _find_target,
    "os.link": _find_source_and_target,
    "os.mkdir": _find_new_folder,
    "os.remove": _find_entry,
    "os.removexattr": lambda path, *_: _find_target(path),
    "os.rename": _find_source_and_target,
    "os.rmdir": _find_entry,
    "os.setxattr": lambda path, *_: _find_target(path),
    "os.symlink": _find_new_link,
    "os.truncate": lambda path, *_: _find_target(path),
    "os.utime": _find_target,
    "shutil.rmtree": _find_entry,
}


class FileGuard:
    """An audit hook that refuses changes to files below `protected`, except those below `work`.

    Args:
        temporary: the folder in which programs may create new files, even below `protected`; the system's if None.

    Attributes:
        written: the files that were opened for writing. refused: the files whose change was refused.
    """

    def __init__(self, protected: Path, work: Path, temporary: Path | None = None) -> None:
        self.protected, self.work = protected.resolve(), work.resolve()
        self.temporary = (temporary or Path(tempfile.gettempdir())).resolve()
        #: What lies in the temporary folder already; a program may well put more there.
        self.there = {path.name for path in self.temporary.iterdir()}
        self.written: set[str] = set()
        self.refused: list[str] = []

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        find = EVENTS.get(event)
        for path, folder, follow in find(*arguments) if find is not None else ():
            real = resolve_argument(path, folder, follow)
            if real is None or str(real).startswith(("/dev/", "/proc/")):
                continue
            if self.protects_path(real):
                self.refused.append(str(real))
                raise PermissionError(errno.EPERM, REFUSAL, str(real))
            if event == "open" and isinstance(arguments[1], str):
                self.written.add(os.path.abspath(os.fsdecode(path)))  # noqa: PTH100 — quick, and links stay

    def protects_path(self, path: Path) -> bool:
        """Whether a path must not be changed: it is below `protected`, and is neither a work file, a cache, nor a new temporary
        file.
        """
        if path.is_relative_to(self.work) or not path.is_relative_to(self.protected):
            return False
        if any(map(is_ignored, path.relative_to(self.protected).parts)):
            return False
        if not self.temporary.is_relative_to(self.protected):
            return True
        # The program lies in the temporary folder, or above it.
        if not path.is_relative_to(self.temporary) or path == self.temporary:
            return True
        return path.relative_to(self.temporary).parts[0] in self.there


def resolve_argument(path: Any, folder: int, follow: bool) -> Path | None:
    """Resolve a call's path argument, relative to a folder's descriptor; None for a file descriptor or an unknown path."""
    with suppress(TypeError, ValueError, OSError):
        if isinstance(path, int):
            return None
        name = os.fsdecode(path)
        if folder != -1 and not os.path.isabs(name):  # noqa: PTH117 — called often
            name = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), name)  # noqa: PTH115, PTH118
        if follow:
            return Path(os.path.realpath(name))
        head, tail = os.path.split(os.path.abspath(name))  # noqa: PTH100
        return Path(os.path.realpath(head), tail)
    return None
