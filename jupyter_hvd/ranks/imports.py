"""Imports TensorFlow in one of our processes, before a user's program begins there."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def pause_gc() -> Iterator[None]:
    """Pause garbage collection for a block; during imports it takes a sixth of the time.

    Objects imported in the block are never collected, so that forks share their pages.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
