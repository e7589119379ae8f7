# expect: HVD101 HVD202 HVD401 HVD403 HVD701 HVD801 HVD803 HVD804
"""a generator that shuffles with NumPy's own random numbers, endless, its steps counted"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")


def batches(size):
    while True:
        order = np.random.permutation(len(x))
        for start in range(0, len(x), size):
            rows = order[start : start + size]
            yield x[rows], y[rows]


model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
model.compile("adam", "mse")
train = batches(20)
model.fit(train, steps_per_epoch=len(x) // 20, epochs=2)
