# expect: HVD101 HVD202 HVD401 HVD701 HVD801 HVD803
"""transfer by stages: an optimizer re-created with the previous one's rate, and one with the rate of the program's options"""

from types import SimpleNamespace

import numpy as np
import tensorflow as tf
from tensorflow.keras import layers

options = SimpleNamespace(lr=0.01, epochs=1)
rng = np.random.RandomState(0)
x = rng.normal(size=(160, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")


class Decay(tf.keras.callbacks.Callback):
    def __init__(self, lr):
        super().__init__()
        self.lr = lr

    def on_epoch_begin(self, epoch, logs=None):
        self.model.optimizer.learning_rate = self.lr / (1 + epoch)


base = tf.keras.Sequential([layers.Input((8,)), layers.Dense(16, activation="relu")])
base.trainable = False
model = tf.keras.Sequential([layers.Input((8,)), base, layers.Dense(1)])
model.compile(tf.keras.optimizers.Adam(options.lr), "mse")
model.fit(x, y, batch_size=20, epochs=options.epochs, verbose=0)
base.trainable = True
rate = float(model.optimizer.learning_rate.numpy())
model.compile(tf.keras.optimizers.Adam(rate / 10), "mse")
model.fit(x, y, batch_size=20, epochs=1, verbose=0)
model.optimizer.learning_rate = options.lr / 5
model.fit(x, y, batch_size=20, epochs=2, verbose=0, callbacks=[Decay(options.lr)])
