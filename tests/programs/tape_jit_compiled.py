# expect: HVD101 HVD301 HVD601 HVD701 HVD801 HVD803
"""steps that XLA compiles: one decorated, one passed to `tf.function`, and a forward pass that stays with XLA"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(192, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
model.build((None, 8))
loss_fn = tf.keras.losses.BinaryCrossentropy(from_logits=True)
opt = tf.keras.optimizers.SGD(learning_rate=0.05)
ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(500).batch(16, drop_remainder=True)


@tf.function(jit_compile=True)
def predict(bx):
    return model(bx, training=True)


@tf.function(jit_compile=True)
def gradients_of(bx, by):
    with tf.GradientTape() as tape:
        loss = loss_fn(by, predict(bx))
    return loss, tape.gradient(loss, model.trainable_variables)


def train(bx, by):
    loss, grads = gradients_of(bx, by)
    opt.apply_gradients(zip(grads, model.trainable_variables))
    return loss


step = tf.function(train, jit_compile=True)

for epoch in range(2):
    for bx, by in ds:
        loss = step(bx, by)
    print(epoch, float(loss))
