"""Layers that go by the whole batch: statistics of it, a loss of it, a count of calls, a tensor that is kept, rows mixed."""
import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(10)


class Centre(keras.layers.Layer):
    def call(self, x):
        return x - tf.reduce_mean(x, 0, keepdims=True)


class Running(keras.layers.Layer):
    def build(self, shape):
        self.mean = self.add_weight(shape=(shape[-1],), initializer="zeros", trainable=False)

    def call(self, x):
        self.mean.assign(0.9 * self.mean + 0.1 * tf.reduce_mean(x, 0))
        return x - self.mean


class Kept(keras.layers.Layer):
    def call(self, x):
        self.last = x
        return 2.0 * x


class Rolled(keras.layers.Layer):
    def call(self, x):
        return 0.5 * (x + tf.roll(x, 1, 0))


class Spread(keras.layers.Layer):
    def call(self, x):
        self.add_loss(0.1 * tf.math.reduce_std(x))
        return x


rng = np.random.default_rng(0)
x, y = rng.normal(size=(21, 4)).astype("float32"), rng.normal(size=(21, 1)).astype("float32")
for layer in (Centre(), Running(), Kept(), Rolled(), Spread()):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(4), layer, keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model.fit(x, y, epochs=1, batch_size=8, verbose=0)
    print(type(layer).__name__, model.evaluate(x, y, verbose=0))
kept = Kept()
for _ in range(2):
    kept(x)
    print(kept.last.shape)
