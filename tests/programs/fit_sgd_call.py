# expect: HVD101 HVD202 HVD401 HVD403 HVD701 HVD801 HVD803
"""an optimizer call with momentum, its rate by keyword"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
model.compile(optimizer=tf.keras.optimizers.SGD(learning_rate=0.05, momentum=0.9), loss="mse")
model.fit(x, y, epochs=2, batch_size=16, verbose=2)
