# expect: HVD101 HVD301 HVD601 HVD701 HVD802 HVD803 HVD804
"""an endless dataset and take"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
loss_fn = tf.keras.losses.BinaryCrossentropy(from_logits=True)
opt = tf.keras.optimizers.Adam(0.01)
ds = tf.data.Dataset.from_tensor_slices((x, y)).repeat().shuffle(200).batch(10)

@tf.function
def step(bx, by):
    with tf.GradientTape() as tape:
        loss = loss_fn(by, model(bx, training=True))
    grads = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(grads, model.trainable_variables))
    return loss

for number, (bx, by) in enumerate(ds.take(30)):
    loss = step(bx, by)
    if number % 10 == 0:
        print("step", number, float(loss))
