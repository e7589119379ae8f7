"""Rates in a dictionary of settings, one for each of two optimizers, and handed on by `**`."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(34)
settings = {"batch_size": 6, "encoder": {"learning_rate": 0.01}, "head": {"learning_rate": 0.05, "momentum": 0.9}}
encoder = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(5, activation="tanh")])
head = tf.keras.Sequential([tf.keras.Input((5,)), tf.keras.layers.Dense(1)])
slow = tf.keras.optimizers.Adam(settings["encoder"]["learning_rate"])
fast = tf.keras.optimizers.SGD(**settings["head"])
x = np.random.rand(42, 3).astype("float32")
data = tf.data.Dataset.from_tensor_slices((x, x.sum(1))).batch(settings["batch_size"])
for epoch in range(2):
    for a, b in data:
        with tf.GradientTape(persistent=True) as tape:
            loss = tf.reduce_mean((head(encoder(a, training=True), training=True)[:, 0] - b) ** 2)
        for model, optimizer in ((encoder, slow), (head, fast)):
            optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    print(epoch, f"{float(loss):.6f}", settings["encoder"])
