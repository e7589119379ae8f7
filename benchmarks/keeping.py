"""What keeping costs a loop that can be started again: `python benchmarks/keeping.py [SECONDS]`.

A small model is trained by one process, by turns of one step each, with a folder to keep its state in and without, in turn;
printed are the median of a turn of each, their ratio, and how often was kept.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from statistics import median


def main(seconds: float) -> None:
    import horovod.tensorflow as hvd
    import numpy as np
    import tensorflow as tf

    import jupyter_hvd.runtime as jhvd

    hvd.init()
    model = tf.keras.Sequential(
        [tf.keras.Input((256,)), tf.keras.layers.Dense(512), tf.keras.layers.Dense(1)]
    )
    optimizer = tf.keras.optimizers.Adam(1e-3)
    x = tf.constant(np.random.default_rng(0).normal(size=(512, 256)).astype("float32"))

    @tf.function
    def step() -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(x)))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    step()
    found: dict[bool, list[float]] = {False: [], True: []}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(10):
            keeps = bool(number % 2)
            os.environ.pop("JUPYTER_HVD_STATE", None)
            if keeps:
                kept = Path(folder) / str(number)
                kept.mkdir()
                os.environ["JUPYTER_HVD_STATE"] = str(kept)
            began, turns = time.perf_counter(), 0
            for _ in jhvd.resumed_loop(range(10**9), {"model": model, "optimizer": optimizer}):
                step()
                turns += 1
                if time.perf_counter() - began > seconds / 10:
                    break
            found[keeps].append((time.perf_counter() - began) / turns)
    plain, keeping = median(found[False]), median(found[True])
    print(
        f"a turn {1e3 * plain:.2f} ms, with keeping {1e3 * keeping:.2f} ms: × {keeping / plain:.3f}"
    )


if __name__ == "__main__":
    main(float(sys.argv[1]) if sys.argv[1:] else 60.0)
