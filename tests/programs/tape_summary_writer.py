# expect: HVD101 HVD301 HVD701 HVD801 HVD803
"""a summary writer, tqdm and a learning-rate variable"""

import numpy as np
import tensorflow as tf
from tqdm import tqdm

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
loss_fn = tf.keras.losses.BinaryCrossentropy(from_logits=True)
opt = tf.keras.optimizers.Adam(0.01)
ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(500).batch(16)
writer = tf.summary.create_file_writer("logs")


@tf.function
def step(bx, by):
    with tf.GradientTape() as tape:
        loss = loss_fn(by, model(bx, training=True))
    grads = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(grads, model.trainable_variables))
    return loss


with writer.as_default():
    for number, (bx, by) in enumerate(tqdm(ds)):
        loss = step(bx, by)
        tf.summary.scalar("loss", loss, step=number)
