# expect: HVD101 HVD202 HVD401 HVD601 HVD701 HVD801 HVD803
"""an optimizer in a name, its rate by position, from tensorflow.keras.optimizers"""

import numpy as np
import tensorflow as tf
from tensorflow.keras.optimizers import Nadam

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

opt = Nadam(0.002)
model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
model.compile(loss="mse", optimizer=opt)
model.fit(x, y, epochs=2, batch_size=16, verbose=0)
print("rate", float(opt.learning_rate))
