"""Gradients without a tape, in compiled functions: `tf.gradients` once and twice, and an optimizer of TensorFlow 1."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(43)
x = np.random.normal(size=(11, 3)).astype("float32")
y = np.sin(x[:, :1])
model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(4, activation="tanh"), tf.keras.layers.Dense(1)])
first = tf.compat.v1.train.GradientDescentOptimizer(0.1)


@tf.function
def step(x, y):
    loss = tf.reduce_mean((model(x) - y) ** 2)
    variables = [v.value for v in model.trainable_variables]
    slopes = tf.gradients(loss, variables)
    others = tf.compat.v1.gradients(loss, variables[:1])
    products = tf.gradients(slopes[0], variables[:1], tf.ones_like(slopes[0]))
    first.minimize(loss, var_list=variables)
    return loss, tf.norm(slopes[0]), tf.norm(others[0]), tf.norm(products[0])


for start in range(0, 11, 4):
    rows = slice(start, start + 4)
    print(" ".join(f"{float(value):.5f}" for value in step(tf.constant(x[rows]), tf.constant(y[rows]))))
