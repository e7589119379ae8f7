# expect: HVD101 HVD301 HVD601 HVD701 HVD801 HVD803
# Keras 3 alone: optimizers of Keras 2 have no `apply`
"""the loop of Keras' own guide: operations of `keras.ops`, gradients handed to `apply`"""

import keras
import numpy as np
import tensorflow as tf
from keras import ops

rng = np.random.RandomState(0)
x = rng.normal(size=(96, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

model = keras.Sequential([keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
optimizer = keras.optimizers.Adam(1e-3)
loss_fn = keras.losses.BinaryCrossentropy(from_logits=True)
dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(96).batch(16)
model.build((None, 8))


@tf.function(jit_compile=False)
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_fn(y, model(x, training=True)) + 1e-4 * ops.sum(ops.square(model.layers[0].kernel))
    gradients = tape.gradient(loss, model.trainable_weights)
    optimizer.apply(gradients, model.trainable_weights)
    return loss


for epoch in range(2):
    for bx, by in dataset:
        loss = train_step(bx, by)
    print("epoch", epoch, float(loss))
