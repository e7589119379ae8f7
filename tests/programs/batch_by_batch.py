# expect: HVD101 HVD202 HVD601 HVD701 HVD801 HVD803
"""train_on_batch over batches that the loop cuts, in an order drawn anew at each epoch"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(208, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
model.compile("adam", "mse", metrics=["mae"])
for epoch in range(2):
    order = np.random.permutation(len(x))
    for start in range(0, len(x), 16):
        rows = order[start : start + 16]
        loss, error = model.train_on_batch(x[rows], y[rows])
    print(epoch, loss, error)
