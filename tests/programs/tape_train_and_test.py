# expect: HVD101 HVD301 HVD601 HVD701 HVD801 HVD803
"""one loop that trains and tests, by a flag or without an optimizer; a step that does both; test data stay whole"""

import numpy as np
import tensorflow as tf

rng = np.random.default_rng(5)
x = rng.normal(size=(96, 4)).astype("float32")
y = x.sum(axis=1, keepdims=True)
model = tf.keras.Sequential([tf.keras.layers.Input((4,)), tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.SGD(0.01)


def batches(x, y, shuffles):
    data = tf.data.Dataset.from_tensor_slices((x, y))
    if shuffles:
        data = data.shuffle(96)
    return data.batch(16)


train, test = batches(x[:64], y[:64], True), batches(x[64:], y[64:], False)


@tf.function
def step(inputs, targets, training=True):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(inputs, training=training) - targets))
    if not training:
        return loss
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


def epoch(data, training):
    seen, losses = 0, []
    for inputs, targets in data:
        losses.append(float(step(inputs, targets, training)))
        seen += len(inputs)
    return seen, np.mean(losses)


def epoch_with(data, optimizer=None):
    seen = 0
    for inputs, targets in data:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(inputs) - targets))
        if optimizer is not None:
            gradients = tape.gradient(loss, model.trainable_variables)
            optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        seen += len(inputs)
    return seen


epoch(train, True)
seen, loss = epoch(test, training=False)
assert seen == 32
epoch_with(train, optimizer)
assert epoch_with(test) == 32
print("test loss:", loss > 0)
