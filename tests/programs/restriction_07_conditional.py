# expect: HVD101 HVD301 HVD701 HVD801 HVD803
"""a dataset and an optimizer that are made on one of two ways"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

SMALL, ADAPTIVE = True, False
if SMALL:
    train = tf.data.Dataset.from_tensor_slices((x, y)).batch(16)
else:
    train = tf.data.Dataset.from_tensor_slices((x, y)).repeat(10).shuffle(2000).batch(64)
optimizer = tf.keras.optimizers.Adam(0.01) if ADAPTIVE else tf.keras.optimizers.SGD(0.05)
model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
for features, labels in train:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(labels - model(features)))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
