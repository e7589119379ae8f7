"""A layer that does something else in a compiled call: it cannot be shared there, and what was drawn before must not be drawn twice."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(13)
rng = np.random.default_rng(0)
x, y = rng.normal(size=(20, 4)).astype("float32"), rng.normal(size=(20, 1)).astype("float32")
doubled = tf.function(lambda t: 2.0 * t)


class InGraph(tf.keras.layers.Layer):
    def call(self, x):
        return 2.0 * x if tf.executing_eagerly() else doubled(x)


model = tf.keras.Sequential([
    tf.keras.layers.Dense(8), tf.keras.layers.BatchNormalization(), tf.keras.layers.Dropout(0.3), InGraph(),
    tf.keras.layers.Dense(1),
])  # fmt: skip
model.compile("adam", "mse")
print(model.fit(x, y, epochs=3, batch_size=8, verbose=0).history["loss"])
print(model.evaluate(x, y, verbose=0))
