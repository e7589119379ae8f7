# expect: HVD101 HVD202 HVD401 HVD403 HVD701 HVD801 HVD803
"""a functional model with two inputs, made by a function"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

def build(width):
    left, right = tf.keras.Input((4,)), tf.keras.Input((4,))
    joined = tf.keras.layers.Concatenate()([left, right])
    hidden = tf.keras.layers.Dense(width, activation="relu")(joined)
    return tf.keras.Model([left, right], tf.keras.layers.Dense(1)(hidden))


model = build(16)
model.compile("sgd", "mse")
model.fit([x[:, :4], x[:, 4:]], y, epochs=2, batch_size=16)
