# expect: HVD101 HVD301 HVD701 HVD801 HVD803
# Keras 2 alone: optimizers of Keras 3 scale losses by `scale_loss`, and gradients by themselves
"""mixed precision in a tape loop: a loss scaled up, gradients scaled back"""

import numpy as np
import tensorflow as tf
tf.keras.mixed_precision.set_global_policy("mixed_float16")
rng = np.random.RandomState(0)
x = rng.normal(size=(96, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")
model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1, dtype="float32")])
optimizer = tf.keras.mixed_precision.LossScaleOptimizer(tf.keras.optimizers.Adam(1e-3))

@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(y - model(x)))
        scaled_loss = optimizer.get_scaled_loss(loss)
    scaled_gradients = tape.gradient(scaled_loss, model.trainable_variables)
    gradients = optimizer.get_unscaled_gradients(scaled_gradients)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss

for bx, by in tf.data.Dataset.from_tensor_slices((x, y)).batch(16):
    train_step(bx, by)
