# expect: HVD701 HVD801
"""a fit and a compile whose arguments are put together elsewhere, with a batch size among them"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(201, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")


def train(optimizer, **options):
    settings = {"optimizer": optimizer, "loss": "mse"}
    model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
    model.compile(**settings)
    return model.fit(x, **options)


csv = tf.keras.callbacks.CSVLogger("log.csv")
stop = tf.keras.callbacks.EarlyStopping("loss", patience=3)
train("adam", y=y, epochs=2, batch_size=50, verbose=2, callbacks=[csv, stop])
train(tf.keras.optimizers.SGD(0.01), y=y, batch_size=100)
