"""Variables and no layer: the program runs unsharded."""
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
x, y = tf.constant(rng.normal(size=(20, 3)), tf.float32), tf.constant(rng.normal(size=(20, 1)), tf.float32)
w = tf.Variable(tf.random.normal([3, 1]))
for step in range(3):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((x @ w - y) ** 2)
    w.assign_sub(0.1 * tape.gradient(loss, w))
    print(f"{float(loss):.5f}")
