"""Rare classes are drawn as often as others: `rejection_resample`, and rows drawn by weights."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(24)
x = np.random.normal(size=(120, 3)).astype("float32")
y = (x[:, 0] > 1.0).astype("int64")
data = tf.data.Dataset.from_tensor_slices((x, y))
even = data.rejection_resample(lambda a, b: b, target_dist=[0.5, 0.5], initial_dist=[0.85, 0.15], seed=3)
even = even.map(lambda label, row: row).repeat().batch(6).take(20)
model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(5, activation="relu"), tf.keras.layers.Dense(1)])
model.compile(tf.keras.optimizers.Adam(0.01), tf.keras.losses.BinaryCrossentropy(from_logits=True))
print(model.fit(even, epochs=2, verbose=0).history["loss"])
