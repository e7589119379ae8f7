# expect: HVD101 HVD202 HVD301 HVD401 HVD403 HVD701 HVD801 HVD803
"""one model, trained by `fit` first and by a tape afterwards"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
model.compile(tf.keras.optimizers.SGD(0.05), "mse")
model.fit(x, y, epochs=1, batch_size=100)
optimizer = tf.keras.optimizers.Adam(0.001)
for features, labels in tf.data.Dataset.from_tensor_slices((x, y)).batch(25):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(labels - model(features)))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
