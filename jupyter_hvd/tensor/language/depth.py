"""Raises the recursion limit: recursion is as deep as the nesting of a program's lets."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

DEEP = 50_000
_lock = Lock()
_limits: list[int] = []  # the limit as it was, once for each that is at work


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Raise Python's recursion limit within a block or a decorated function."""
    with _lock:
        _limits.append(_limits[0] if _limits else sys.getrecursionlimit())
        sys.setrecursionlimit(max(_limits[0], DEEP))
    try:
        yield
    finally:
        with _lock:
            before = _limits.pop()
            if not _limits:
                sys.setrecursionlimit(before)
