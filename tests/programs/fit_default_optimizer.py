# expect: HVD101 HVD401 HVD403 HVD701 HVD801 HVD803
"""compile without an optimizer, fit with default batches"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
model.compile(loss="mse")
model.fit(x, y, epochs=3)
