# expect: HVD101 HVD202 HVD401 HVD403 HVD701 HVD801 HVD803
"""a `Sequence` that shuffles its rows when it is made and after every epoch"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(220, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")


class Batches(tf.keras.utils.Sequence):
    def __init__(self, size):
        self.size, self.rows = size, np.arange(len(x))
        self.on_epoch_end()

    def __len__(self):
        return len(x) // self.size

    def __getitem__(self, index):
        rows = self.rows[index * self.size : (index + 1) * self.size]
        return x[rows], y[rows]

    def on_epoch_end(self):
        np.random.shuffle(self.rows)


model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(Batches(20), epochs=2)
