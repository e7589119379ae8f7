"""Calls the user's own code, such as a `repr`, that may hang: each call has a second, all of them together have three."""

from __future__ import annotations

import ctypes
import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any

#: Seconds for one call, and for all of them together.
CALL_LIMIT, CALLS_LIMIT = 1.0, 3.0


class UnansweredError(Exception):
    """A call was given up, or not begun, and why: this says nothing about the value that it is about."""


class StopCall(BaseException):
    """Ends a call that takes too long. No Exception: `except Exception` in the user's code is not to catch it."""


class BoundedCalls:
    """Calls functions in threads of their own, and leaves alone those that take too long.

    A call that hangs holds up neither its caller nor the main thread, which may run a cell.
    """

    def __init__(self, each: float = CALL_LIMIT, together: float = CALLS_LIMIT) -> None:
        self._each, self._left = each, together

    def call(self, function: Callable[[], Any]) -> Any:
        """Return what a function returns, within the time limits.

        Raises:
            UnansweredError: it takes too long, or others have.
            Exception: that of the function.
        """
        if self._left <= 0:
            raise UnansweredError("is not called, because others take too long")
        seconds, answer = min(self._each, self._left), SimpleQueue[tuple[bool, Any]]()
        started = time.monotonic()
        thread = threading.Thread(
            target=_put_answer, args=(function, answer), name="hvd-bounded-call", daemon=True
        )
        thread.start()
        try:
            has_returned, found = answer.get(timeout=seconds)
        except Empty:
            _stop_thread(thread)
            raise UnansweredError(f"takes longer than {seconds:.1g} s") from None
        finally:
            self._left -= time.monotonic() - started
        if not has_returned:
            raise found
        return found


def _put_answer(function: Callable[[], Any], answer: SimpleQueue[tuple[bool, Any]]) -> None:
    """Call a function, and put whether it returned, and its value or error, in a queue."""
    try:
        answer.put((True, function()))
    except Exception as error:
        answer.put((False, error))
    except (
        BaseException
    ) as error:  # a SystemExit of the user's own, or a StopCall, which nobody awaits
        answer.put((False, RuntimeError(type(error).__name__)))


def _stop_thread(thread: threading.Thread) -> None:
    """Raise StopCall in a thread as soon as it comes back to Python."""
    identity = ctypes.c_ulong(thread.ident or 0)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(identity, ctypes.py_object(StopCall))
