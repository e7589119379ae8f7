"""What share of the training the guard takes, in one job of two ranks.

python benchmarks/guard.py [seconds]
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path


def measure(seconds: float) -> None:
    """Train for so long; rank 0 prints the guard's share of the time, its waiting for the other rank included."""
    import horovod.tensorflow as hvd
    import tensorflow as tf

    import jupyter_hvd.runtime as jhvd
    from jupyter_hvd.runtime import guard, weights

    jhvd.start()
    model = tf.keras.Sequential([tf.keras.layers.Dense(512, activation="relu") for _ in range(3)])
    optimizer = tf.keras.optimizers.Adam(1e-3)
    x, y = tf.random.normal((64, 256)), tf.random.normal((64, 512))

    @tf.function
    def step() -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(y - model(x)))
        tape = jhvd.DistributedGradientTape(tape)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    spent = 0.0
    compare = guard.compare_ranks

    def timed(*trained: object) -> None:
        nonlocal spent
        began = time.perf_counter()
        compare(*trained)
        spent += time.perf_counter() - began

    weights.compare_ranks = timed
    steps, began = 0, time.perf_counter()
    while hvd.broadcast_object(time.perf_counter() - began < seconds, root_rank=0):
        if steps == 100:  # all is compiled
            spent, began = 0.0, time.perf_counter()
        for _ in range(100):
            step()
            jhvd.broadcast_once(optimizer, model)
        steps += 100
    whole = time.perf_counter() - began
    if hvd.rank() == 0:
        print(
            f"{steps - 100} steps of {1000 * whole / (steps - 100):.2f} ms: the guard took {spent / whole:.3%} of the time"
        )


if __name__ == "__main__":
    if "--rank" in sys.argv:
        measure(float(sys.argv[1]))
    else:
        seconds = sys.argv[1] if len(sys.argv) > 1 else "40"
        program = [sys.executable, __file__, seconds, "--rank"]
        command = [
            Path(sys.executable).with_name("horovodrun"),
            "--gloo",
            "-np",
            "2",
            "-H",
            "localhost:2",
            *program,
        ]
        sys.exit(subprocess.run(command, check=False).returncode)
