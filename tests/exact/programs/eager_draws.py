"""Eager layers that draw by operations whose state TensorFlow keeps: a check must not move it."""
import keras, numpy as np, tensorflow as tf
x=np.random.rand(12,8,8,1).astype("f")
class Sampling(keras.layers.Layer):
    def call(self, m):
        return m + tf.random.normal(tf.shape(m))
s=Sampling(); s(x); print(float(tf.reduce_sum(s(x))))
f=keras.layers.RandomFlip("horizontal",seed=1); f(x,training=True); print(float(tf.reduce_sum(f(x,training=True)*x)))


class Shuffled(keras.layers.Layer):
    def call(self, x):
        return x + tf.random.shuffle(x)


shuffled = Shuffled()
shuffled(x)
print(float(tf.reduce_sum(shuffled(x) ** 2)), float(tf.reduce_sum(shuffled(x) ** 3)))
print(float(tf.reduce_sum(tf.random.normal([3], seed=4))), float(tf.reduce_sum(s(x))))
