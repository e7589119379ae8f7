"""Keras 3 without states: `stateless_call` beside calls that have some, variables handed on from step to step."""
import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(35)
x = np.random.rand(24, 3).astype("float32")
model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(5, activation="relu"), keras.layers.BatchNormalization(), keras.layers.Dense(1)])
weights = [v.value for v in model.trainable_variables]
others = [v.value for v in model.non_trainable_variables]
for start in range(0, 24, 7):
    rows = x[start : start + 7]
    with tf.GradientTape() as tape:
        held = [tf.identity(w) for w in weights]
        tape.watch(held)
        y, others = model.stateless_call(held, others, rows, training=True)
        loss = tf.reduce_mean((y[:, 0] - rows[:, 0]) ** 2)
    weights = [w - 0.1 * g for w, g in zip(held, tape.gradient(loss, held))]
    print(f"{float(loss):.5f} {float(tf.reduce_mean(model(rows))):.5f}")
for v, w in zip(model.trainable_variables, weights):
    v.assign(w)
print(model(x[:2]).numpy().ravel())
