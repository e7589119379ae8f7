"""A whole epoch compiled: over a dataset, and in a loop over a range with an evaluation that changes nothing."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(8)
x = np.random.default_rng(0).normal(size=(24, 4)).astype("float32")
y = x.sum(1, keepdims=True)
ds = tf.data.Dataset.from_tensor_slices((x, y)).batch(6)
model = tf.keras.Sequential([tf.keras.layers.Input((4,)), tf.keras.layers.Dense(3, activation="tanh"), tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.SGD(0.05)
optimizer.build(model.trainable_variables)


def step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x, training=True) - y) ** 2)
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss


@tf.function
def over_dataset(ds):
    total = 0.0
    for x, y in ds:
        total += step(x, y)
    return total


@tf.function
def over_range(x, y):
    total = 0.0
    for i in tf.range(4):
        total += step(x[6 * i : 6 * i + 6], y[6 * i : 6 * i + 6])
    errors = 0.0
    for i in tf.range(4):
        errors += tf.reduce_sum(tf.abs(model(x[6 * i : 6 * i + 6]) - y[6 * i : 6 * i + 6]))
    return total, errors


for _ in range(2):
    print(f"{float(over_dataset(ds)):.5f}", *(f"{float(t):.5f}" for t in over_range(tf.constant(x), tf.constant(y))))
