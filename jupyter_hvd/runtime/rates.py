"""Learning rates that change while the program trains, made for one process and followed by N ranks."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar


def scaled_schedule(schedule: Any) -> Any:
    """A schedule of the program's own for N ranks: they take N of its steps at once, N times as long."""
    return _schedule_class()(schedule)


@functools.cache
def _schedule_class() -> Any:
    """Horovod copies an optimizer by its configuration, in which a number stands for the schedule."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    @tf.keras.utils.register_keras_serializable("jupyter_hvd")
    class ScaledSchedule(tf.keras.optimizers.schedules.LearningRateSchedule):  # type: ignore[misc]
        known: ClassVar[list[Any]] = []

        def __init__(self, schedule: Any) -> None:
            if not isinstance(schedule, int):
                self.known.append(schedule)
                schedule = len(self.known) - 1
            self.number = schedule

        def __call__(self, step: Any) -> Any:
            return self.known[self.number](step * hvd.size()) * hvd.size()

        def get_config(self) -> dict[str, int]:
            return {"schedule": self.number}

    return ScaledSchedule


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
