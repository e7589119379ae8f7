# expect: HVD101 HVD301 HVD701 HVD801 HVD803
# Keras 3 alone: optimizers of Keras 2 have no `scale_loss`
"""mixed precision in a tape loop: the optimizer scales the loss, and the gradients back by itself"""

import keras
import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(96, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

keras.mixed_precision.set_global_policy("mixed_float16")
model = keras.Sequential([keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1, dtype="float32")])
optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(1e-3))
model.build((None, 8))


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(y - model(x)))
        scaled = optimizer.scale_loss(loss)
    gradients = tape.gradient(scaled, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


for bx, by in tf.data.Dataset.from_tensor_slices((x, y)).batch(16):
    train_step(bx, by)
