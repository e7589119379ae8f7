"""Gradients that are computed again, reversed or replaced: `tf.recompute_grad`, `tf.custom_gradient`, straight-through."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(31)
L = tf.keras.layers
x = np.random.rand(23, 5).astype("float32")
domain = (np.arange(23) % 2).astype("float32")


@tf.custom_gradient
def reverse(x):
    return tf.identity(x), lambda g: -0.3 * g


class Reverse(L.Layer):
    def call(self, x):
        return reverse(x)


class Binary(L.Layer):
    def call(self, x):
        return x + tf.stop_gradient(tf.cast(x > 0.5, x.dtype) - x)


features = tf.keras.Sequential([L.Input((5,)), L.Dense(6, activation="sigmoid"), Binary()])
label, where = L.Dense(1), tf.keras.Sequential([Reverse(), L.Dense(1)])
label.build((None, 6))
where.build((None, 6))
block = tf.recompute_grad(lambda h: tf.nn.tanh(label(h)))
optimizer = tf.keras.optimizers.Adam(0.02)
variables = features.trainable_variables + label.trainable_variables + where.trainable_variables
for step in range(6):
    rows = slice(step * 3, step * 3 + 8)
    with tf.GradientTape() as tape:
        h = features(x[rows])
        loss = tf.reduce_mean((block(h)[:, 0] - x[rows, 0]) ** 2)
        loss += tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(domain[rows], where(h)[:, 0]))
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
    print(step, f"{float(loss):.5f}")
