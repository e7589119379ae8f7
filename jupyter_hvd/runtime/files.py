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
            error = _as_sent(raised)
    done, error = hvd.broadcast_object((done, error), root_rank=0, name="on_rank_zero")
    if error is not None:
        raise error
    return done  # type: ignore[no-any-return]


def local_rank_zero_first(load: Callable[[], Loaded]) -> Loaded:
    """Let rank 0 download, then the first rank of each other machine, then the rest, who find the files.

    Each rank gets what its own call gives. An error of one who goes first is raised on all ranks.
    """
    import horovod.tensorflow as hvd

    if hvd.size() == 1:
        return load()
    own = 0 if hvd.rank() == 0 else 1 if hvd.local_rank() == 0 else 2
    for turn in range(1 if hvd.local_size() == hvd.size() else 2):
        error: Any = None
        if turn == own:
            try:
                loaded = load()
            except Exception as raised:
                error = _as_sent(raised)
        errors = hvd.allgather_object(error, name="local_rank_zero_first")
        for said in (error, *errors):  # one's own first, with the lines that it came from
            if said is not None:
                raise said
    return load() if own == 2 else loaded


def own_folder() -> str:
    """A new folder for what this rank must write and nobody reads; it goes when the program ends."""
    import atexit
    import shutil
    import tempfile

    folder = tempfile.mkdtemp(prefix="rank-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def rank_zero_file(path: Any) -> Any:
    """The name of a file that rank 0 writes; on another rank that of one in a folder that does not last."""
    import os

    import horovod.tensorflow as hvd

    return path if hvd.rank() == 0 else os.path.join(own_folder(), os.path.basename(path))  # noqa: PTH118, PTH119 — of names


def _as_sent(error: Exception) -> BaseException:
    """The error as all ranks can raise it: itself, or one of the nearest class above its own that can be sent."""
    import contextlib
    import pickle

    text = f"{type(error).__name__}: {error}"
    for kind in type(error).__mro__:
        with contextlib.suppress(Exception):  # it holds an open file, or is made of other arguments
            sent: BaseException = error if kind is type(error) else kind(text)
            pickle.loads(pickle.dumps(sent))  # noqa: S301 — it was made a line above
            return sent
    return RuntimeError(text)
