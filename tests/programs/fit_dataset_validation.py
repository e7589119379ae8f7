# expect: HVD101 HVD202 HVD401 HVD403 HVD701 HVD801 HVD803
"""fit of a dataset with validation data and early stopping"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

train = tf.data.Dataset.from_tensor_slices((x[:150], y[:150])).shuffle(150).batch(16).prefetch(2)
valid = tf.data.Dataset.from_tensor_slices((x[150:], y[150:])).batch(16)
model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
model.compile(optimizer="adam", loss=tf.keras.losses.BinaryCrossentropy(from_logits=True), metrics=["accuracy"])
model.fit(train, validation_data=valid, epochs=3, callbacks=[tf.keras.callbacks.EarlyStopping(monitor="loss", patience=1)])
