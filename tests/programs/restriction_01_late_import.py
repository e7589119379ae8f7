# expect: HVD101 HVD202 HVD401 HVD403 HVD701 HVD801 HVD803
"""imports in the middle of the program, and inside a function"""

import numpy as np

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

import tensorflow as tf


def make_model():
    from tensorflow.keras.layers import Dense
    from tensorflow.keras.models import Sequential

    return Sequential([Dense(16, activation="relu"), Dense(1)])


model = make_model()
import tensorflow.keras.optimizers as optimizers

model.compile(optimizers.SGD(0.05), "mse")
model.fit(x, y, epochs=1, batch_size=16)
