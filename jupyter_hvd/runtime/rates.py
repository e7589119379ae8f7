"""Learning rates that change while the program trains, made for one process and followed by N ranks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def scaled_schedule(schedule: Any) -> Any:
    """The schedule itself, for N ranks from now on: they take N of its steps at once, N times as long.

    It stays of its class by name, so that a model saved with it loads where neither Horovod nor this package is.
    """
    import horovod.tensorflow as hvd

    own = type(schedule)

    def rate(self: Any, step: Any) -> Any:
        return own.__call__(self, step * hvd.size()) * hvd.size()

    named = {"__module__": own.__module__, "__qualname__": own.__qualname__, "__call__": rate}
    schedule.__class__ = type(own.__name__, (own,), named)
    return schedule


def scaled_rates(schedule: Callable[..., float]) -> Callable[[int, float], float]:
    """The function of a `LearningRateScheduler` for N ranks: shown one process's rate, its answer times N."""
    import horovod.tensorflow as hvd

    def scaled(epoch: int, lr: float) -> float:
        try:
            rate = schedule(epoch, lr / hvd.size())
        except TypeError:  # as Keras itself tells the two kinds apart
            rate = schedule(epoch)
        return float(rate * hvd.size())

    return scaled
