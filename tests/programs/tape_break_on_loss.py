# expect: HVD101 HVD301 HVD701 HVD801 HVD803
"""a loop that ends when the loss is small"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
loss_fn = tf.keras.losses.BinaryCrossentropy(from_logits=True)
opt = tf.keras.optimizers.Adam(0.01)
ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(500).batch(16)


@tf.function
def step(bx, by):
    with tf.GradientTape() as tape:
        loss = loss_fn(by, model(bx, training=True))
    grads = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(grads, model.trainable_variables))
    return loss


for bx, by in ds:
    loss = step(bx, by)
    if loss < 0.65:
        break
