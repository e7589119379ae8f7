# expect: HVD101 HVD601 HVD701 HVD801 HVD803
"""gradients kept in a dictionary, and clipped before they are applied"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(200).batch(5)
model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu", input_shape=(8,)), tf.keras.layers.Dense(1)])
opt = tf.keras.optimizers.Adam(0.01)
kept = {}
for bx, by in ds:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(by - model(bx, training=True)))
    gradients = tape.gradient(loss, model.trainable_variables)
    for place, gradient in enumerate(gradients):
        kept[place] = gradient
    clipped, _ = tf.clip_by_global_norm(list(kept.values()), 1.0)
    opt.apply_gradients(zip(clipped, model.trainable_variables))
print(float(loss))
