# refused HVD505
"""a generator that draws from a random generator of its own, without a seed"""

import numpy as np
import tensorflow as tf

rng = np.random.default_rng()
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")


def batches():
    while True:
        rows = rng.integers(0, len(x), 16)
        yield x[rows], y[rows]


model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(batches(), steps_per_epoch=10)
