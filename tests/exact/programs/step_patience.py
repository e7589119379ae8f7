"""A loop over steps that evaluates each few of them, with a patience of evaluations, and keeps the best weights."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(6)
x = np.random.normal(size=(64, 5)).astype("float32")
y = np.random.normal(size=(64, 1)).astype("float32")
model = tf.keras.Sequential([tf.keras.Input((5,)), tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.Adam(0.02)
best, bad, patience = float("inf"), 0, 4
rng = np.random.default_rng(0)
for step in range(200):
    rows = rng.choice(48, 12, replace=False)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(x[rows], training=True) - y[rows]) ** 2)
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    if (step + 1) % 5 == 0:
        value = float(tf.reduce_mean((model(x[48:]) - y[48:]) ** 2))
        if value < best - 1e-4:
            best, bad, kept = value, 0, model.get_weights()
        else:
            bad += 1
        if bad >= patience:
            break
model.set_weights(kept)
print(step, bad, f"{best:.5f}")
