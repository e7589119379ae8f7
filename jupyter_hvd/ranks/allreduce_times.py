"""How long an allreduce takes, by its number of bytes."""

from __future__ import annotations

import time
from statistics import median

#: From what is all latency to what is all bandwidth: 1 KiB to 32 MiB.
SIZES = tuple(2**k for k in range(10, 26, 3))
REPEATS = 11


def allreduce_times() -> list[tuple[int, float]]:
    """Return pairs of bytes and median seconds of an allreduce of so many. All ranks must call it."""
    found = []
    for size in SIZES:
        times = [allreduce_seconds(size) for _ in range(REPEATS + 1)]
        found.append((size, median(times[1:])))  # the first makes room
    return found


def allreduce_seconds(size: int) -> float:
    """Return the seconds of one allreduce of `size` bytes. All ranks must call it."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    numbers = tf.ones(size // 4)
    began = time.perf_counter()
    # An entry of the sum is there when all of it is, on a GPU, too.
    hvd.allreduce(numbers, op=hvd.Sum, name=f"jupyter_hvd.measured.{size}")[0].numpy()
    return time.perf_counter() - began
