"""File types by name, and reading and atomic writing of files."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path


class UnusableInputError(Exception):
    """A file that cannot be converted; the message is one clear line for the user."""


def cache_folder() -> Path:
    """Return the folder for results that are slow to compute; JUPYTER_HVD_CACHE sets it. It may not exist."""
    own = os.environ.get("JUPYTER_HVD_CACHE")
    if own:
        return Path(own)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "jupyter-hvd"


def is_notebook(path: Path) -> bool:
    """Whether a program is a notebook; else it is a script."""
    return path.suffix == ".ipynb"


def read_bytes(path: Path) -> bytes:
    """Return the contents of a file.

    Raises:
        UnusableInputError: it does not exist, or cannot be read.
    """
    try:
        if path.exists() and not path.is_file() and not path.is_dir():
            raise UnusableInputError(f"{path}: is not a regular file")
        return path.read_bytes()
    except FileNotFoundError:
        raise UnusableInputError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise UnusableInputError(f"{path}: this is a folder") from None
    except OSError as error:
        raise UnusableInputError(f"{path}: cannot be read ({error.strerror})") from None
    except ValueError as error:
        raise UnusableInputError(f"{str(path)!r}: {error}") from None


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that at any time either the old or the new contents are complete.

    A link stays a link, and its target is written.

    Raises:
        UnusableInputError: the path cannot be written, or is a device or the like.
    """
    temporary = None
    try:
        path = path.resolve()
        if path.exists() and not stat.S_ISREG(path.stat().st_mode):
            raise UnusableInputError(f"{path}: is not a regular file, so it is not written")
        handle, temporary = tempfile.mkstemp(dir=path.parent or ".", prefix=".jupyter-hvd-")
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(_file_mode(path))
        Path(temporary).replace(path)
    except (OSError, ValueError, RuntimeError) as error:
        if temporary is not None:
            with suppress(OSError):
                Path(temporary).unlink()
        reason = getattr(error, "strerror", None) or error
        raise UnusableInputError(f"{path}: cannot be written ({reason})") from None


def _file_mode(path: Path) -> int:
    """Return the mode of the file to be replaced, or the default mode of a new file."""
    with suppress(OSError):
        return path.stat().st_mode & 0o7777
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask
