# expect: HVD101 HVD301 HVD701 HVD801 HVD803
"""weights of the best epoch, kept in a dict and set back one by one, and a number of epochs that losses decide"""

import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
x = rng.normal(size=(128, 4)).astype("float32")
y = x.sum(1, keepdims=True)
dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(128).batch(16)
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
opt = tf.keras.optimizers.SGD(0.05)
best, best_epoch = {"loss": np.inf, "weights": None}, 1


def train(xb, yb):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((model(xb) - yb) ** 2)
    grads = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(grads, model.trainable_variables))
    return loss


for epoch in range(3):
    total = sum(float(train(xb, yb)) for xb, yb in dataset)
    if total < best["loss"]:
        best["loss"], best_epoch = total, epoch + 1
        best["weights"] = [w.numpy() for w in model.trainable_variables]
[v.assign(w) for v, w in zip(model.trainable_variables, best["weights"])]

for epoch in range(best_epoch):
    for xb, yb in dataset:
        train(xb, yb)
