# expect: HVD101 HVD202 HVD401 HVD403 HVD701 HVD801 HVD803
"""callbacks that write checkpoints, TensorBoard logs and a CSV file"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
model.compile(optimizer="adam", loss=tf.keras.losses.BinaryCrossentropy(from_logits=True), metrics=["accuracy"])
callbacks = [
    tf.keras.callbacks.ModelCheckpoint("{epoch}.weights.h5", save_weights_only=True),
    tf.keras.callbacks.TensorBoard("logs"),
]
callbacks.append(tf.keras.callbacks.CSVLogger("log.csv"))
model.fit(x, y, epochs=2, batch_size=16, callbacks=callbacks)
