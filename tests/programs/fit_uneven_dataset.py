# expect: HVD101 HVD202 HVD401 HVD403 HVD701 HVD801 HVD803
"""a dataset whose last batch is smaller"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(201, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
model.compile(optimizer="adam", loss=tf.keras.losses.BinaryCrossentropy(from_logits=True), metrics=["accuracy"])
ds = tf.data.Dataset.from_tensor_slices((x, y)).batch(10)
model.fit(ds, epochs=2)
