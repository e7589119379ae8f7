# expect: HVD101 HVD202 HVD401 HVD403 HVD701 HVD801 HVD803
"""an optimizer whose name is chosen elsewhere"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

import sys

name = sys.argv[1] if len(sys.argv) > 1 else "adam"
model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
model.compile(name, "mse")
model.fit(x, y)
