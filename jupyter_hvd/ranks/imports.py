"""Imports TensorFlow in one of our processes, before a user's program begins there."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def pause_gc() -> Iterator[None]:
    """Pause garbage collection for a block, which during imports takes a sixth of the time.

    It ignores what was imported afterwards, too, which keeps pages that a fork shares.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
