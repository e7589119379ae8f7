# expect: HVD101 HVD202 HVD401 HVD403 HVD701 HVD801 HVD803
"""tensorflow bound by an assignment, and by importlib"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

import importlib

flow = tf
keras = importlib.import_module("tensorflow.keras")

model = keras.Sequential([flow.keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
model.compile(flow.keras.optimizers.SGD(0.05), "mse")
model.fit(x, y, epochs=1, batch_size=16)
