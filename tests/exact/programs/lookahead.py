"""Lookahead by hand: slow copies of the variables, to which the fast ones return each few steps."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(8)
x = np.random.rand(36, 3).astype("float32")
model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(6, activation="selu"), tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.Adagrad(0.1)
slow = [tf.identity(v) for v in model.trainable_variables]
for step in range(24):
    rows = x[(step * 7) % 30 :][:7]
    with tf.GradientTape() as tape:
        loss = tf.math.reduce_std(model(rows, training=True)[:, 0] - rows[:, 0])
    gradients, norm = tf.clip_by_global_norm(tape.gradient(loss, model.trainable_variables), 0.5)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    if step % 6 == 5:
        slow = [s + 0.5 * (v - s) for s, v in zip(slow, model.trainable_variables)]
        for s, v in zip(slow, model.trainable_variables):
            v.assign(s)
        print(step, f"{float(loss):.5f} {float(norm):.5f}")
