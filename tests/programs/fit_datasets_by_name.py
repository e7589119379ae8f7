# expect: HVD101 HVD202 HVD401 HVD403 HVD701 HVD802 HVD803
"""datasets kept by their names, and chosen by one that is known when the program runs"""

import sys

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")
parts = {"test": tf.data.Dataset.from_tensor_slices((x[160:], y[160:])).batch(16)}
parts["train" if sys.argv else "rest"] = tf.data.Dataset.from_tensor_slices((x[:160], y[:160])).shuffle(200).batch(16)

model = tf.keras.Sequential([tf.keras.layers.Dense(8, activation="relu"), tf.keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(parts["train"], validation_data=parts["test"], epochs=1)
