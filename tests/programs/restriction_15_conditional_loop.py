# expect: HVD101 HVD301 HVD701 HVD801 HVD803
"""a training loop under a condition that all ranks decide alike"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

import os

model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.SGD(0.05)
if not os.path.exists("kept.weights.h5"):
    for features, labels in tf.data.Dataset.from_tensor_slices((x, y)).batch(16):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(labels - model(features)))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    model.save_weights("kept.weights.h5")
