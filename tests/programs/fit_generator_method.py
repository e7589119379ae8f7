# expect: HVD101 HVD202 HVD401 HVD403 HVD701 HVD801 HVD803 HVD804
# Keras 2 alone: Keras 3 has no `fit_generator`
"""the older fit_generator, its arguments by position"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")


def batches():
    while True:
        for start in range(0, 200, 10):
            yield x[start : start + 10], y[start : start + 10]


model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit_generator(batches(), 20, 2, 2)
