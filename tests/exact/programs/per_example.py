"""Differentially private steps: one gradient per example, clipped and with noise; and PCGrad over two losses."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(16)
rng = np.random.default_rng(0)
x, y = rng.normal(size=(10, 4)).astype("float32"), rng.normal(size=(10, 1)).astype("float32")
model = tf.keras.Sequential([tf.keras.layers.Input((4,)), tf.keras.layers.Dense(3, activation="relu"), tf.keras.layers.Dense(1)])
for step in range(2):
    with tf.GradientTape() as tape:
        losses = tf.reduce_sum((model(x) - y) ** 2, 1)
    for v, j in zip(model.trainable_variables, tape.jacobian(losses, model.trainable_variables)):
        norms = tf.norm(tf.reshape(j, [10, -1]), axis=1)
        clipped = j / tf.reshape(tf.maximum(1.0, norms), [-1] + [1] * (len(j.shape) - 1))
        v.assign_sub(0.1 * (tf.reduce_mean(clipped, 0) + 0.01 * tf.random.normal(v.shape)))
    print(f"{float(tf.reduce_mean(losses)):.5f}")
with tf.GradientTape(persistent=True) as tape:
    p = model(x)
    one, two = tf.reduce_mean((p - y) ** 2), tf.reduce_mean(tf.abs(p - 1.0))
a = tf.concat([tf.reshape(g, [-1]) for g in tape.gradient(one, model.trainable_variables)], 0)
b = tf.concat([tf.reshape(g, [-1]) for g in tape.gradient(two, model.trainable_variables)], 0)
dot = tf.reduce_sum(a * b)
print(f"{float(dot):.5f} {float(tf.norm(a - tf.minimum(dot, 0.0) * b / tf.reduce_sum(b * b))):.5f}")
