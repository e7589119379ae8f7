"""Sharpness-aware steps, averaged weights, cyclic rates, pseudo-labels that are sure enough, a replay of hard rows."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(18)
rng = np.random.default_rng(0)
x = rng.normal(size=(33, 4)).astype("float32")
y = (x[:, :1] > 0).astype("float32")
unlabelled = rng.normal(size=(12, 4)).astype("float32")
model = tf.keras.Sequential([tf.keras.layers.Input((4,)), tf.keras.layers.Dense(6, activation="relu"), tf.keras.layers.Dense(1, activation="sigmoid")])
optimizer = tf.keras.optimizers.SGD(0.1)
priority = np.ones(33)
averages, count = [v.numpy() * 0 for v in model.trainable_variables], 0


def loss_of(x, y):
    return tf.reduce_mean(tf.keras.losses.binary_crossentropy(y, model(x, training=True)))


for step in range(5):
    optimizer.learning_rate = 0.1 * (1 + step % 2)
    rows = rng.choice(33, 9, replace=False, p=priority / priority.sum())
    batch = x[rows], y[rows]
    with tf.GradientTape() as tape:
        loss = loss_of(*batch)
    gradients = tape.gradient(loss, model.trainable_variables)
    away = [0.05 * g / (tf.linalg.global_norm(gradients) + 1e-12) for g in gradients]
    for v, a in zip(model.trainable_variables, away):
        v.assign_add(a)
    with tf.GradientTape() as tape:
        again = loss_of(*batch)
    second = tape.gradient(again, model.trainable_variables)
    for v, a in zip(model.trainable_variables, away):
        v.assign_sub(a)
    optimizer.apply_gradients(zip(second, model.trainable_variables))
    priority[rows] = np.abs(model(x[rows]).numpy() - y[rows]).ravel() + 0.1
    averages, count = [(a * count + v.numpy()) / (count + 1) for a, v in zip(averages, model.trainable_variables)], count + 1
    p = model.predict(unlabelled, verbose=0)
    sure = np.abs(p[:, 0] - 0.5) > 0.1
    x, y = np.concatenate([x[:33], unlabelled[sure]]), np.concatenate([y[:33], (p[sure] > 0.5).astype("float32")])
    print(f"{float(loss):.5f} {float(again):.5f}", int(sure.sum()), f"{priority.sum():.4f}")
model.set_weights(averages)
