# expect: HVD101 HVD301 HVD601 HVD701 HVD801 HVD803
"""a gradient penalty, whose tape is not marked"""

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
        with tf.GradientTape() as inner:
            inner.watch(bx)
            score = model(bx)
        slope = inner.gradient(score, bx)
        loss = loss_fn(by, score) + tf.reduce_mean(tf.square(slope))
    grads = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(grads, model.trainable_variables))
    return loss


for epoch in range(2):
    for bx, by in ds:
        loss = step(bx, by)
    print(epoch, float(loss))
