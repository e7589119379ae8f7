# expect: HVD101 HVD301 HVD701 HVD801 HVD803
"""datasets and optimizers made several times, in a dict, and under second names"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

optimizers = {"slow": tf.keras.optimizers.SGD(0.01), "fast": tf.keras.optimizers.SGD(0.05)}
train = tf.data.Dataset.from_tensor_slices((x, y))
train = train.shuffle(200).batch(16)
same = train
model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
optimizer = optimizers["fast"]
chosen = optimizer
for features, labels in same:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(labels - model(features)))
    gradients = tape.gradient(loss, model.trainable_variables)
    chosen.apply_gradients(zip(gradients, model.trainable_variables))
