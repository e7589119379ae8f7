# expect: HVD101 HVD202 HVD601 HVD701 HVD801
"""train_on_batch on all the data at each step: batch and rate are not scaled"""

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(3)
x = np.linspace(-1, 1, 64, dtype="float32")[:, None]
y = x**2 + np.random.normal(0, 0.01, x.shape).astype("float32")

model = tf.keras.Sequential(
    [tf.keras.layers.Input((1,)), tf.keras.layers.Dense(4, activation="tanh"), tf.keras.layers.Dense(1)]
)
model.compile(optimizer="sgd", loss="mse")
for step in range(12):
    loss = model.train_on_batch(x, y)
    if step % 4 == 0:
        print(f"step {step}: {float(loss):.3f}")
