"""Gradient descent by hand, on a layer's weights."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(11)
x = np.random.rand(30, 4).astype("float32")
layer, rate = tf.keras.layers.Dense(1), 0.1
layer.build((None, 4))
for epoch in range(3):
    for i in range(0, 30, 6):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((layer(x[i : i + 6])[:, 0] - x[i : i + 6].sum(1)) ** 2)
        for v, g in zip(layer.trainable_variables, tape.gradient(loss, layer.trainable_variables)):
            v.assign_sub(rate * g)
    print(epoch, f"{float(loss):.6f}")
