# expect: HVD101 HVD301 HVD701 HVD801 HVD803
"""a global optimizer that is made after the function that uses it, and made anew later"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])


def train_step(features, labels):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(labels - model(features)))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))


train = tf.data.Dataset.from_tensor_slices((x, y)).batch(50)
optimizer = tf.keras.optimizers.SGD(0.05)
for features, labels in train:
    train_step(features, labels)
optimizer = tf.keras.optimizers.Adam(0.001)
for features, labels in train:
    train_step(features, labels)
