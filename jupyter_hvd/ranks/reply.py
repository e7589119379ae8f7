"""The answer of a rank that has run a cell: values, or an error as data."""

from __future__ import annotations

import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..runtime.sharing.random_state import RandomState
from .paths import AccessPath
from .snapshot import Assignment

#: The states from which layers draw, by paths that lead to these or their models.
LayerSeeds = Mapping[AccessPath, Sequence[Any]]


class Frame(NamedTuple):
    """A line of a traceback."""

    file: str
    line: int
    function: str
    code: str


@dataclass(frozen=True)
class RemoteError:
    """An exception on a rank, as far as it can travel.

    Attributes:
        frames: from the cell on. because: what it came from; direct: by `raise … from`.
        syntax: the file and line of a SyntaxError, and what is wrong there.
    """

    type: str
    text: str
    frames: tuple[Frame, ...] = ()
    because: RemoteError | None = None
    direct: bool = False
    syntax: tuple[str, int, str] | None = None


@dataclass(frozen=True)
class Reply:
    """How a cell ended on a rank.

    Attributes:
        error: None if it ended well. time: by the rank's clock. seconds: that it took.
        delta: what the notebook is to assign.
        trained: a digest of what it has trained, '' where it has updated nothing.
        failed: which values that came with the call have not been set, by path, and why; None where none could come.
        digests: of values that were asked for, by path.
        drawn: what the notebook goes on drawing from: its random numbers, and the states of layers.
    """

    error: RemoteError | None = None
    time: float = field(default_factory=time.time)
    seconds: float = 0.0
    delta: Sequence[Assignment] = ()
    trained: str = ""
    failed: Mapping[str, str] | None = None
    digests: Mapping[str, int] = field(default_factory=dict)
    drawn: tuple[RandomState, LayerSeeds] | None = None


def describe_error(error: BaseException) -> RemoteError:
    """Convert an exception to data: its type, text and frames, and those of its causes."""
    text = traceback.TracebackException(type(error), error, error.__traceback__, compact=True)
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    frames = [Frame(f.filename, f.lineno or 0, f.name, f.line or "") for f in text.stack]
    first = next(
        (i for i, frame in enumerate(frames) if frame.file.startswith("<In[")), len(frames)
    )
    syntax = None
    if isinstance(error, SyntaxError):
        syntax = (error.filename or "", error.lineno or 0, error.msg)
    return RemoteError(
        type(error).__name__,
        safe_text(error),
        tuple(frames[first:]),
        describe_error(cause) if cause is not None else None,
        error.__cause__ is not None,
        syntax,
    )


def safe_text(error: BaseException) -> str:
    """Return an exception's text, also if its `__str__` fails."""
    try:
        return str(error)
    except Exception as failure:
        return f"(its text cannot be shown: {type(failure).__name__})"
