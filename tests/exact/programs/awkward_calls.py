"""A call from another thread, on lists, on a scalar, on ragged rows, with a fixed batch size, by a stateful layer, with arguments of other sizes."""
import threading

import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(20)
rng = np.random.default_rng(0)
x = rng.normal(size=(8, 4)).astype("float32")
layer = keras.layers.Dense(3, activation="tanh")
layer(x)
found = []
thread = threading.Thread(target=lambda: found.append(layer(x)))
thread.start()
thread.join()
print(float(tf.reduce_sum(found[0])), float(tf.reduce_sum(layer(x))), float(tf.reduce_sum(layer(tf.constant(x[:1])))))


class Scaled(keras.layers.Layer):
    def call(self, x, scale=1.0, table=None):
        return x * scale if table is None else x @ table * scale


scaled = Scaled()
scaled(x)
print(float(tf.reduce_sum(scaled(x, scale=tf.constant(2.0)))))
square = tf.constant(rng.normal(size=(4, 4)), tf.float32)
for n in (8, 4):  # with four rows, the table is taken for rows
    with tf.GradientTape() as tape:
        tape.watch(square)
        out = tf.reduce_sum(scaled(tf.constant(x[:n]), table=square) ** 2)
    print(float(out), float(tf.norm(tape.gradient(out, square))))
fixed = keras.Sequential([keras.Input(batch_shape=(8, 4)), keras.layers.Dense(2)]) if keras.__version__ >= "3" else keras.Sequential([keras.Input((4,), batch_size=8), keras.layers.Dense(2)])
fixed.compile("sgd", "mse")
fixed.fit(x, x[:, :2], batch_size=8, epochs=2, verbose=0)
stateful = keras.Sequential([keras.Input(batch_shape=(4, 3, 2)), keras.layers.GRU(3, stateful=True), keras.layers.Dense(1)]) if keras.__version__ >= "3" else keras.Sequential([keras.Input((3, 2), batch_size=4), keras.layers.GRU(3, stateful=True), keras.layers.Dense(1)])
stateful.compile("adam", "mse")
s = rng.normal(size=(8, 3, 2)).astype("float32")
stateful.fit(s, s[:, 0, :1], batch_size=4, shuffle=False, epochs=2, verbose=0)
noise = keras.layers.GaussianDropout(0.3, seed=3)
print([float(tf.reduce_sum(noise(x[:n], training=True))) for n in (8, 7, 3, 2, 1, 8)])
empty = layer(tf.zeros([0, 4]))
print(empty.shape)


@tf.function(input_signature=[tf.TensorSpec([None, 4])])
def any_rows(x):
    return layer(x)


print([float(tf.reduce_sum(any_rows(x[:n]))) for n in (8, 5, 1, 0)])
