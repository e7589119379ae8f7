"""Ranks that share a disk: who writes, and who waits until it is written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Loaded = TypeVar("Loaded")


def wait_for_rank_zero() -> None:
    """Wait until rank 0 has come here too, and with it has written what is read next."""
    import horovod.tensorflow as hvd

    hvd.broadcast(0, root_rank=0)


def on_rank_zero(act: Callable[[], Loaded]) -> Loaded:
    """Let rank 0 alone change files, when all ranks have come here; the others wait, and get what it got.

    An error of rank 0 is raised on all ranks.
    """
    import horovod.tensorflow as hvd

    if hvd.size() == 1:
        return act()
    hvd.allgather([0])
    done: Any = None
    error: Any = None
    if hvd.rank() == 0:
        try:
            done = act()
        except Exception as raised:
            error = raised
    done, error = hvd.broadcast_object((done, error), root_rank=0, name="on_rank_zero")
    if error is not None:
        raise error
    return done  # type: ignore[no-any-return]


def local_rank_zero_first(load: Callable[[], Loaded]) -> Loaded:
    """Let the first rank of each machine download; the others then find the files."""
    import horovod.tensorflow as hvd

    if hvd.local_rank() == 0:
        loaded = load()
    hvd.allgather([0])
    if hvd.local_rank() > 0:
        loaded = load()
    return loaded
