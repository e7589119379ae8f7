"""Ranks that share a disk: who writes, and who waits until it is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Loaded = TypeVar("Loaded")


def wait_for_rank_zero() -> None:
    """Wait until rank 0 has come here too, and with it has written what is read next."""
    import horovod.tensorflow as hvd

    hvd.broadcast(0, root_rank=0)


def local_rank_zero_first(load: Callable[[], Loaded]) -> Loaded:
    """Let the first rank of each machine download; the others then find the files."""
    import horovod.tensorflow as hvd

    if hvd.local_rank() == 0:
        loaded = load()
    hvd.allgather([0])
    if hvd.local_rank() > 0:
        loaded = load()
    return loaded
