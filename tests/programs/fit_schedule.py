# expect: HVD101 HVD202 HVD401 HVD403 HVD701 HVD801 HVD803
"""a schedule in an optimizer, and the schedule's rates"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

boundaries, values = [5, 10], [0.1, 0.05, 0.01]
schedule = tf.keras.optimizers.schedules.PiecewiseConstantDecay(boundaries, values)
model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
model.compile(tf.keras.optimizers.SGD(schedule), "mse")
model.fit(x, y, epochs=2, batch_size=16)
