# expect: HVD101 HVD202 HVD401 HVD403 HVD701 HVD801 HVD803
"""fine-tuning: the rate is set anew between two fits, by assignment and by `assign`"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(32, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.SGD(0.1)
model.compile(optimizer, "mse")
model.fit(x, y, epochs=1, batch_size=16)
optimizer.learning_rate = 0.05
model.fit(x, y, epochs=1, batch_size=16)
optimizer.learning_rate.assign(optimizer.learning_rate * 0.5)
model.fit(x, y, epochs=1, batch_size=16)
