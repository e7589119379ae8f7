"""Batches by their numbers, `x[i * B : (i + 1) * B]`, as many as a division says."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(12)
B = 5
x = np.random.rand(42, 3).astype("float32")
model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(5, activation="relu"), tf.keras.layers.Dense(1)])
model.compile(tf.keras.optimizers.Adagrad(0.1), "mse")
steps = len(x) // B
for epoch in range(2):
    losses = [float(model.train_on_batch(x[i * B : (i + 1) * B], x[i * B : (i + 1) * B, 0])) for i in range(steps)]
    print(epoch, steps, [round(loss, 6) for loss in losses])
