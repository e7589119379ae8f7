# expect: HVD101 HVD301 HVD601 HVD701 HVD801 HVD803 HVD804
"""batches drawn with `next` from a generator without end, in a loop over a count of steps"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")


def batches(size):
    while True:
        for start in range(0, len(x), size):
            yield x[start : start + size], y[start : start + size]


source = batches(20)
model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.Adam(1e-3)
for epoch in range(2):
    for step in range(10):
        features, labels = next(source)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(labels - model(features)))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    print(epoch, float(loss))
