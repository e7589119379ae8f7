"""Gradients gathered from several batches, the last of them applied behind the loop."""

import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1))).astype("float32")
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model(x[:1])
opt = tf.keras.optimizers.SGD(1e-2)
ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(200).batch(10)
gathered = None
for epoch in range(2):
    for i, (u, v) in enumerate((2 * a, b) for a, b in ds):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(u) - v) ** 2) / 4
        g = tape.gradient(loss, model.trainable_variables)
        gathered = g if gathered is None else [a + b for a, b in zip(gathered, g)]
        if (i + 1) % 4 == 0:
            opt.apply_gradients(zip(gathered, model.trainable_variables))
            gathered = None
    if gathered is not None:
        opt.apply_gradients(zip(gathered, model.trainable_variables))
        gathered = None
    print(epoch, float(loss))
