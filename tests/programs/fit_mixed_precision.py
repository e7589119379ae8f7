# expect: HVD101 HVD202 HVD401 HVD403 HVD701 HVD801 HVD803
"""mixed precision as a policy: Keras wraps the optimizer by itself"""

import numpy as np
import tensorflow as tf
from tensorflow.keras import mixed_precision
mixed_precision.set_global_policy("mixed_float16")
rng = np.random.RandomState(0)
x = rng.normal(size=(96, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")
model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1, dtype="float32")])
model.compile(tf.keras.optimizers.Adam(1e-3), "mse")
model.fit(x, y, epochs=1, batch_size=16)
