# expect: HVD101 HVD202 HVD401 HVD403 HVD701 HVD801 HVD803
"""the optimizer is made in a function"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

def make_optimizer(rate):
    return tf.keras.optimizers.Adam(learning_rate=rate)


model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
model.compile(make_optimizer(0.01), "mse")
model.fit(x, y, epochs=2, batch_size=16)
