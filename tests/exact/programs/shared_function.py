"""A function of variables, shared by hand."""
import numpy as np
import tensorflow as tf

import jupyter_hvd.runtime as jhvd

rng = np.random.default_rng(0)
x, y = tf.constant(rng.normal(size=(20, 3)), tf.float32), tf.constant(rng.normal(size=(20, 1)), tf.float32)
w, b = tf.Variable(tf.random.normal([3, 1])), tf.Variable([0.0])


@jhvd.share
def predict(x):
    return tf.tanh(x @ w) + b


@jhvd.share
def centred(x):
    return predict(x) - tf.reduce_mean(x)


for f in (predict, centred):
    for step in range(3):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((f(x) - y) ** 2)
        for v, g in zip((w, b), tape.gradient(loss, (w, b))):
            v.assign_sub(0.1 * g)
        print(f"{float(loss):.5f}")
