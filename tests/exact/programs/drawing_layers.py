"""Layers that draw by other means: NumPy, Python, fixed seeds, one number for all rows, Gumbel noise, a layer that is dropped."""
import random

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(32)


class ByNumpy(layers.Layer):
    def call(self, x, training=False):
        return x + np.random.normal(size=x.shape).astype("float32") * 0.1 if training else x


class Dropped(layers.Layer):
    def __init__(self):
        super().__init__()
        self.dense = layers.Dense(4, activation="relu")

    def call(self, x, training=False):
        return self.dense(x) if not training or random.random() < 0.5 else x


class Gumbel(layers.Layer):
    def call(self, x):
        u = tf.random.uniform(tf.shape(x), 1e-6, 1.0)
        return tf.nn.softmax((x - tf.math.log(-tf.math.log(u))) / 0.7)


class OneForAll(layers.Layer):
    def call(self, x):
        return x * tf.random.uniform([], 0.5, 1.5) + tf.random.stateless_normal(tf.shape(x), (1, 2)) * 0.1


class ByShuffle(layers.Layer):
    def call(self, x):
        return 0.7 * x + 0.3 * tf.random.shuffle(x)


class Poisson(layers.Layer):
    def call(self, x):
        return x + tf.stop_gradient(tf.random.poisson([], tf.abs(x)))


x = np.random.rand(18, 4).astype("float32")
for kind in (ByNumpy, Dropped, Gumbel, OneForAll, ByShuffle, Poisson):
    model = keras.Sequential([keras.Input((4,)), layers.Dense(4), kind(), layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.05), "mse", run_eagerly=True)
    history = model.fit(x, x.sum(1), batch_size=5, epochs=2, verbose=0)
    print(kind.__name__, [round(value, 5) for value in history.history["loss"]])
