# expect: HVD101 HVD301 HVD701 HVD801 HVD803 HVD804
"""one step that several loops call, each with data of its own kind"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(256, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1))).astype("float32")

model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.SGD(0.01)
dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(64)


def batches():
    while True:
        for start in range(0, len(x), 32):
            yield x[start : start + 32], y[start : start + 32]


def step(features, labels):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(labels - model(features)))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


for features, labels in dataset:
    step(features, labels)
endless, losses = batches(), []
for turn in range(4):
    features, labels = next(endless)
    losses.append(step(features, labels))
for start in range(0, len(x), 32):
    losses.append(step(x[start : start + 32], y[start : start + 32]))
for turn in range(4):
    rows = np.random.choice(len(x), 16)
    losses.append(step(x[rows], y[rows]))
