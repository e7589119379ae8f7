# expect: HVD101 HVD202 HVD401 HVD403 HVD701 HVD801 HVD803
"""import tensorflow and from tensorflow import keras, aliases of modules and classes"""

import numpy as np
import tensorflow as tf
from tensorflow import keras

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

layers = tf.keras.layers
Adam = tf.keras.optimizers.Adam
model = keras.Sequential([layers.Dense(16, activation="relu"), layers.Dense(1)])
model.compile(Adam(1e-3), loss="mse")
model.fit(x, y, 16, 2)
