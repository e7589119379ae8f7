"""A generator that cuts batches, over which a loop trains."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(5)


def batches(x, y, size):
    order = np.random.permutation(len(x))
    for start in range(0, len(x), size):
        rows = order[start : start + size]
        yield x[rows], y[rows]


x = np.random.rand(37, 3).astype("float32")
model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(5, activation="relu"), tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.Adam(0.02)
for epoch in range(3):
    for a, b in batches(x, x.sum(1), 7):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(a, training=True)[:, 0] - b) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    print(epoch, len(a), f"{float(loss):.6f}")
