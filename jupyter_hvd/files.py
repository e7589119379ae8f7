"""Reading and writing scripts and notebooks without ever leaving half a file."""

from __future__ import annotations

import io
import os
import tempfile
import tokenize
import warnings
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nbformat import NotebookNode

#: More Python than this in one program is not written by people; it is refused before it is parsed.
MAX_SOURCE = 5_000_000


class UnusableInputError(Exception):
    """A file that cannot be converted; the message is one clear line for the user."""


@dataclass(frozen=True)
class Script:
    """A script's text and how it was encoded."""

    source: str
    encoding: str


def read_script(path: Path) -> Script:
    """Read a script as Python itself would: by its coding line, UTF-8 otherwise.

    Raises:
        UnusableInputError: it is not there, cannot be read or decoded, or is too large.
    """
    data = _read(path)
    try:
        encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
        source = data.decode(encoding)
    except (SyntaxError, UnicodeDecodeError, LookupError) as error:
        raise UnusableInputError(
            f"{path}: the text cannot be decoded ({error}); save it as UTF-8"
        ) from error
    _check_size(path, len(source))
    return Script(source, encoding)


def read_notebook(path: Path) -> NotebookNode:
    """Read a notebook of any nbformat version as version 4.

    Raises:
        UnusableInputError: it is not there, cannot be read, or is no notebook.
    """
    import nbformat

    data = _read(path)
    try:
        with warnings.catch_warnings():
            # A cell without an id gets one when it is written; nothing for the user to do.
            warnings.simplefilter("ignore")
            notebook = nbformat.reads(data.decode("utf-8"), as_version=4)
            nbformat.validate(notebook)
    except UnicodeDecodeError as error:
        raise UnusableInputError(
            f"{path}: the notebook is not UTF-8 ({error.reason} at byte {error.start})"
        ) from error
    except Exception as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UnusableInputError(
            f"{path}: this is not a Jupyter notebook ({reason[:200]})"
        ) from error
    _check_size(path, sum(len(c.source) for c in notebook.cells if c.cell_type == "code"))
    return notebook


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise UnusableInputError(f"{path}: there is no such file") from None
    except IsADirectoryError:
        raise UnusableInputError(f"{path}: this is a folder") from None
    except OSError as error:
        raise UnusableInputError(f"{path}: cannot be read ({error.strerror})") from None


def _check_size(path: Path, size: int) -> None:
    if size > MAX_SOURCE:
        raise UnusableInputError(f"{path}: {size / 1e6:.0f} MB of Python is too much to convert")


def write_script(path: Path, script: Script) -> None:
    write_atomically(path, script.source.encode(script.encoding))


def write_notebook(path: Path, notebook: NotebookNode) -> None:
    import nbformat

    write_atomically(path, (nbformat.writes(notebook).rstrip("\n") + "\n").encode())


def write_atomically(path: Path, data: bytes) -> None:
    """Write a file so that at every moment either the old or the new one is there, whole.

    Raises:
        UnusableInputError: the place cannot be written.
    """
    temporary = None
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent or ".", prefix=f".{path.name}.")
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(_mode(path))
        Path(temporary).replace(path)
    except OSError as error:
        if temporary is not None:
            with suppress(OSError):
                Path(temporary).unlink()
        raise UnusableInputError(f"{path}: cannot be written ({error.strerror})") from None


def _mode(path: Path) -> int:
    """The mode of the file to be replaced, or what a new file gets here."""
    with suppress(OSError):
        return path.stat().st_mode & 0o7777
    umask = os.umask(0)
    os.umask(umask)
    return 0o666 & ~umask
