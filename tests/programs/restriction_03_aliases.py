# expect: HVD101 HVD301 HVD701 HVD801 HVD803
"""members of tensorflow under names of their own"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

Adam, Tape = tf.keras.optimizers.Adam, tf.GradientTape
from_slices = tf.data.Dataset.from_tensor_slices

model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
optimizer = Adam(1e-2)
for features, labels in from_slices((x, y)).batch(16):
    with Tape() as tape:
        loss = tf.reduce_mean(tf.square(labels - model(features)))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
