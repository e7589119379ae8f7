# expect: HVD101 HVD202 HVD401 HVD701 HVD801 HVD803
"""`fit` of a model that was loaded with its optimizer"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

first = tf.keras.Sequential([tf.keras.layers.Dense(1)])
first.compile(optimizer="adam", loss="mse")
first.fit(x, y, epochs=1, batch_size=20, verbose=0)
first.save("model.keras")
model = tf.keras.models.load_model("model.keras")
model.fit(x, y, epochs=2, batch_size=20, verbose=0)
