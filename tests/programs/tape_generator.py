# expect: HVD101 HVD301 HVD601 HVD701 HVD801 HVD803
"""a tape loop over a generator with an odd number of batches"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(220, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")


def batches(size):
    order = np.random.permutation(len(x))
    for start in range(0, len(x), size):
        rows = order[start : start + size]
        yield x[rows], y[rows]


model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.Adam(1e-3)
for epoch in range(2):
    for number, (features, labels) in enumerate(batches(20)):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(labels - model(features)))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    print(epoch, number, float(loss))
