# expect: HVD101 HVD202 HVD401 HVD403 HVD701 HVD801 HVD803 HVD804
"""a generator of batches that draws from a random generator of its own, made without a seed"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")
order = np.random.default_rng()


def batches():
    while True:
        rows = order.permutation(len(x))
        for start in range(0, len(x), 20):
            yield x[rows[start : start + 20]], y[rows[start : start + 20]]


model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(batches(), steps_per_epoch=10)
