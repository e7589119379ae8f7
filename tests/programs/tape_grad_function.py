# expect: HVD101 HVD301 HVD701 HVD801 HVD803
"""gradients come from a function, through clipping"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
loss_fn = tf.keras.losses.BinaryCrossentropy(from_logits=True)
opt = tf.keras.optimizers.Adam(0.01)
ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(500).batch(16)


def grad(net, bx, by):
    with tf.GradientTape() as tape:
        loss = loss_fn(by, net(bx))
    return loss, tape.gradient(loss, net.trainable_variables)


for bx, by in ds:
    loss, grads = grad(model, bx, by)
    grads, norm = tf.clip_by_global_norm(grads, 1.0)
    opt.apply_gradients(zip(grads, model.trainable_variables))
