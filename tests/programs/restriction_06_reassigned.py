# expect: HVD101 HVD301 HVD601 HVD701 HVD801 HVD803
"""the names of a dataset and an optimizer hold other things first and afterwards"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

data = "none yet"
optimizer = "sgd"
print(data, optimizer)
data = tf.data.Dataset.from_tensor_slices((x, y)).batch(16)
optimizer = tf.keras.optimizers.SGD(0.05)
model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
for features, labels in data:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(labels - model(features)))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
data = float(loss)
print(data)
