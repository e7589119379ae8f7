"""Limits the time of a conversion on the command line; the server ends its worker instead."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from ..files import UnusableInputError

#: Seconds that a conversion may take where nobody says otherwise, on the command line and in the server.
CONVERSION_SECONDS = 30.0
#: Seconds after which an end that got lost is tried again: Python drops what is raised in some callbacks.
AGAIN = 1.0


class TooLongError(UnusableInputError):
    """A conversion took longer than its limit."""


@contextmanager
def conversion_limit(path: Path, seconds: float = CONVERSION_SECONDS) -> Iterator[None]:
    """Raise `TooLongError` in the block when it takes longer than a limit. Works in the main thread only; does nothing in
    others.

    Args:
        path: the file that is converted, for the message.
        seconds: how long the block may take; 0 for no limit.

    Raises:
        TooLongError: the block took longer.
    """
    if not seconds or threading.current_thread() is not threading.main_thread():
        yield
        return
    from .engine import stage

    ended: list[TooLongError] = []

    def end_conversion(_: int, frame: FrameType | None) -> None:  # noqa: ARG001 — what a handler is given
        """Handle SIGALRM: raise the error, and note it in case a library's `finally` replaces it."""
        ended.append(
            TooLongError(
                f"{path}: the conversion took more than {seconds:g} s and was ended while it {stage.get()}; "
                "make the program shorter, move parts of it into modules, or allow more with --conversion-limit S"
            )
        )
        raise ended[-1]

    before = signal.signal(signal.SIGALRM, end_conversion)
    signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)
    try:
        yield
    except TooLongError:
        raise
    except Exception as error:
        if ended:  # a library's `finally` failed where it was ended
            raise ended[0] from error
        raise
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
