# expect: HVD101 HVD301 HVD701 HVD801 HVD803
"""batches that the loop cuts out of shuffled arrays, in two ways, or has kept in a list"""

import numpy as np
import tensorflow as tf

data = np.random.RandomState(0)
x = data.normal(size=(200, 8)).astype("float32")
y = (x @ data.normal(size=(8, 1)) > 0).astype("float32")

model = tf.keras.Sequential([tf.keras.layers.Dense(8, activation="relu"), tf.keras.layers.Dense(1)])
opt = tf.keras.optimizers.Adam(0.01)
size = 16


@tf.function
def train_step(bx, by):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(by - model(bx)))
    grads = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(grads, model.trainable_variables))
    return loss


for epoch in range(2):
    order = np.random.permutation(len(x))
    for start in range(0, len(x), size):
        rows = order[start : start + size]
        train_step(x[rows], y[rows])
for number in range(len(x) // size):
    train_step(x[number * size : (number + 1) * size], y[number * size : (number + 1) * size])

batches = []
for start in range(0, len(x), size):
    batches.append((x[start : start + size], y[start : start + size]))
for number in range(len(batches)):
    train_step(*batches[number])
