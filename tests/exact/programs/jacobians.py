"""Jacobians for variables and inputs, a Hessian, and a tape within a tape."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(12)
x = tf.constant(np.random.default_rng(0).normal(size=(7, 3)), tf.float32)
model = tf.keras.Sequential([tf.keras.layers.Input((3,)), tf.keras.layers.Dense(4, activation="tanh"), tf.keras.layers.Dense(1)])
with tf.GradientTape() as tape:
    y = model(x)
jacobian = tape.jacobian(y, model.trainable_variables)
print(*(f"{float(tf.reduce_sum(tf.abs(j))):.5f}" for j in jacobian))
with tf.GradientTape() as tape:
    tape.watch(x)
    y = model(x)
print(f"{float(tf.reduce_sum(tf.abs(tape.batch_jacobian(y, x)))):.5f}")
kernel = model.trainable_variables[0]
with tf.GradientTape() as outer:
    with tf.GradientTape() as inner:
        loss = tf.reduce_mean(model(x) ** 2)
    gradient = inner.gradient(loss, kernel)
print(f"{float(tf.norm(outer.jacobian(gradient, kernel))):.5f}")
with tf.GradientTape() as outer:
    with tf.GradientTape() as inner:
        inner.watch(x)
        y = model(x)
    slope = inner.gradient(y, x)
    penalty = tf.reduce_mean(tf.reduce_sum(slope**2, 1)) + tf.reduce_mean(y)
print(*(f"{float(tf.norm(g)):.5f}" for g in outer.gradient(penalty, model.trainable_variables) if g is not None))
