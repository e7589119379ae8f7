# expect: HVD101 HVD202 HVD401 HVD403 HVD701 HVD801 HVD803
"""random rows that are drawn before TensorFlow is imported"""

import numpy as np

rng = np.random.default_rng()
x = rng.normal(size=(200, 8)).astype("float32")
y = (x.sum(axis=1) > 0).astype("float32")

import tensorflow as tf

model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(x, y)
