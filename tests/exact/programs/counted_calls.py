"""Layers that count their calls, in an attribute and in a variable, and use the count; called eagerly, compiled, and by `fit`."""
import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(46)


class Attribute(keras.layers.Layer):
    calls = 0

    def call(self, x):
        self.calls += 1
        return x / self.calls


class Counter(keras.layers.Layer):
    def build(self, shape):
        self.calls = self.add_weight(name="calls", shape=(), initializer="zeros", trainable=False)

    def call(self, x):
        self.calls.assign_add(1.0)
        return x / self.calls


x = np.random.rand(7, 3).astype("float32")
for layer in (Attribute(), Counter()):
    print([float(tf.reduce_sum(layer(x))) for _ in range(3)], float(layer.calls))
    compiled = tf.function(layer)
    print([float(tf.reduce_sum(compiled(x))) for _ in range(3)])
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4), layer, keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    print(model.fit(x, x[:, :1], batch_size=4, epochs=2, verbose=0).history["loss"], float(layer.calls))
