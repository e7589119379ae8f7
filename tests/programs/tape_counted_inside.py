# expect: HVD101 HVD301 HVD601 HVD701 HVD801 HVD803 HVD804
"""a compiled loop over `tf.range` that draws its batches with `next`; its steps are divided"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(128, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
model.build((None, 8))
loss_fn = tf.keras.losses.BinaryCrossentropy(from_logits=True)
opt = tf.keras.optimizers.SGD(learning_rate=0.05)
opt.build(model.trainable_variables)
iterator = iter(tf.data.Dataset.from_tensor_slices((x, y)).repeat().batch(16))


def step(bx, by):
    with tf.GradientTape() as tape:
        loss = loss_fn(by, model(bx, training=True))
    grads = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(grads, model.trainable_variables))


@tf.function
def some(steps):
    for _ in tf.range(steps):
        bx, by = next(iterator)
        step(bx, by)


for turn in range(4):
    some(tf.constant(4))
    print(turn)
