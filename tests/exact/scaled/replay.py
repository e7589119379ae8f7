"""Batches drawn from a buffer, whose size a parameter has."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(13)
rng = np.random.default_rng(3)


class Buffer:
    def __init__(self, x):
        self.x = x

    def draw(self, count=4):
        return self.x[rng.integers(0, len(self.x), count)]


buffer = Buffer(np.random.rand(50, 3).astype("float32"))
model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(4, activation="relu"), tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.Adam(5e-3)
for step in range(12):
    rows = buffer.draw()
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(rows)[:, 0] - rows[:, 1]) ** 2)
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
print(len(rows), f"{float(loss):.6f}")
