# expect: HVD101 HVD202 HVD401 HVD403 HVD701 HVD801 HVD803
"""`LearningRateScheduler`: one function answers for the epoch, one from the present rate"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(32, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")


def by_epoch(epoch):
    return 0.1 if epoch < 1 else 0.01


def from_present(epoch, lr):
    return lr * 0.5 if epoch else 0.2


model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
model.compile(tf.keras.optimizers.SGD(0.1), "mse")
model.fit(x, y, epochs=2, batch_size=16, callbacks=[tf.keras.callbacks.LearningRateScheduler(by_epoch)])
halving = tf.keras.callbacks.LearningRateScheduler(from_present)
model.fit(x, y, epochs=2, batch_size=16, callbacks=[halving])
