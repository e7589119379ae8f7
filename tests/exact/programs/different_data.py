"""Data that differ from process to process: ranks stop, and name the line."""
import os

import numpy as np
import tensorflow as tf

x = np.frombuffer(os.urandom(4 * 40), np.uint8).reshape(40, 4).astype("float32") / 255
model = tf.keras.Sequential([tf.keras.layers.Input((4,)), tf.keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(x, x[:, :1], batch_size=10, verbose=0)
