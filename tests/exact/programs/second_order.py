"""MAML with inner steps on variables, and Hessian-vector products for conjugate gradients."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(36)
rng = np.random.default_rng(6)
model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(6, activation="tanh"), tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.SGD(0.05)
for round_ in range(3):
    x = rng.normal(size=(11, 2)).astype("float32")
    y = np.sin(x[:, :1] * (round_ + 1))
    before = [v.numpy() for v in model.trainable_variables]
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x) - y) ** 2)
    for v, g in zip(model.trainable_variables, tape.gradient(loss, model.trainable_variables)):
        v.assign_sub(0.1 * g)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x[:5]) - y[:5]) ** 2)
    outer = tape.gradient(loss, model.trainable_variables)
    for v, w in zip(model.trainable_variables, before):
        v.assign(w)
    optimizer.apply_gradients(zip(outer, model.trainable_variables))
    direction = [tf.ones_like(v) for v in model.trainable_variables]
    with tf.GradientTape() as second:
        with tf.GradientTape() as first:
            loss = tf.reduce_mean((model(x) - y) ** 2)
        slopes = first.gradient(loss, model.trainable_variables)
    products = second.gradient(slopes, model.trainable_variables, direction)
    curvature = sum(float(tf.reduce_sum(p)) for p in products if p is not None)
    print(round_, f"{float(loss):.5f} {curvature:.4f}")
