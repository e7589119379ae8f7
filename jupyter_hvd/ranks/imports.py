"""Imports TensorFlow in one of our processes, before a user's program begins there."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def pause_gc() -> Iterator[None]:
    """Without the collector of garbage, which looks through all that modules define again and again: a sixth of the time.

    It leaves it alone afterwards, too, which keeps pages that a fork shares.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
