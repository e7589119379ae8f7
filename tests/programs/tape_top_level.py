# expect: HVD101 HVD301 HVD601 HVD701 HVD801 HVD803
"""a loop at top level, apply_gradients of a zip"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
loss_fn = tf.keras.losses.BinaryCrossentropy(from_logits=True)
opt = tf.keras.optimizers.Adam()
ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(500).batch(16)

for epoch in range(2):
    for bx, by in ds:
        with tf.GradientTape() as tape:
            loss = loss_fn(by, model(bx))
        grads = tape.gradient(loss, model.trainable_variables)
        opt.apply_gradients(zip(grads, model.trainable_variables))
    print("epoch", epoch, "loss", loss.numpy())
