# expect: HVD101 HVD202 HVD401 HVD403 HVD701 HVD801 HVD803 HVD804
"""a callback that counts up to a period and starts over, and validation on batches that are taken from the data"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(96, 6)).astype("float32")
y = (x @ rng.normal(size=(6, 1)) > 0).astype("float32")
settings = {"batch": 16, "epochs": 2, "valid_batches": 2}
rows = tf.data.Dataset.from_tensor_slices((x, y))
valid = rows.take(settings["valid_batches"] * settings["batch"]).batch(settings["batch"])
train = rows.skip(settings["valid_batches"] * settings["batch"]).batch(settings["batch"])


class Halve(tf.keras.callbacks.Callback):
    def __init__(self, period):
        super().__init__()
        self.period, self.count = period, 0

    def on_train_batch_end(self, batch, logs=None):
        self.count += 1
        if self.count >= self.period:
            self.model.optimizer.learning_rate.assign(self.model.optimizer.learning_rate * 0.5)
            self.count = 0


model = tf.keras.Sequential([tf.keras.layers.Dense(8, activation="relu"), tf.keras.layers.Dense(1)])
model.compile(tf.keras.optimizers.SGD(0.05), "mse")
model.fit(
    train,
    epochs=settings["epochs"],
    validation_data=valid,
    validation_steps=settings["valid_batches"],
    callbacks=[Halve(4)],
)
