# expect: HVD101 HVD202 HVD401 HVD403 HVD701 HVD801 HVD803
"""rows shuffled and split at random, without a seed, before they are trained on"""

import numpy as np
import tensorflow as tf

data = np.random.RandomState(0).normal(size=(250, 9)).astype("float32")
np.random.shuffle(data)
train, test = data[:200], data[200:]

model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(train[:, :8], train[:, 8], batch_size=20, epochs=1)
model.evaluate(test[:, :8], test[:, 8])
