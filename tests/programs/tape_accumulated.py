# expect: HVD101 HVD301 HVD601 HVD701 HVD801 HVD803
"""gradients added up in variables over four batches, then applied"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(200).batch(5)
model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu", input_shape=(8,)), tf.keras.layers.Dense(1)])
opt = tf.keras.optimizers.Adam(0.01)
sums = [tf.Variable(tf.zeros_like(v), trainable=False) for v in model.trainable_variables]


@tf.function
def add(bx, by):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(by - model(bx, training=True)))
    gradients = tape.gradient(loss, model.trainable_variables)
    for total, gradient in zip(sums, gradients):
        total.assign_add(gradient / 4)
    return loss


for number, (bx, by) in enumerate(ds):
    loss = add(bx, by)
    if (number + 1) % 4 == 0:
        opt.apply_gradients(zip(sums, model.trainable_variables))
        for total in sums:
            total.assign(tf.zeros_like(total))
print(float(loss))
