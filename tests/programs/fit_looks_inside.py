# expect: HVD101 HVD202 HVD401 HVD701 HVD801 HVD803
"""a model of a part of the first is made only to print something, before a second is trained"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

model = tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(4), tf.keras.layers.Dense(1)])
model.compile("sgd", loss="mse")
model.fit(x, y, epochs=1, batch_size=100, verbose=0)
print(tf.keras.Model(model.inputs, model.layers[0].output).predict(x, verbose=0).shape)
inputs = tf.keras.Input((8,))
outputs = tf.keras.layers.Dense(1)(tf.keras.Model(inputs, tf.keras.layers.Dense(4)(inputs))(inputs))
other = tf.keras.Model(inputs, outputs)
other.compile("sgd", loss="mse")
other.fit(x, y, epochs=1, batch_size=100, verbose=0)
