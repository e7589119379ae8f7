# expect: HVD101 HVD301 HVD701 HVD801 HVD803
"""one variable as the source of a gradient, pairs in a list"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

w = tf.Variable(tf.random.normal((8, 1)))
opt = tf.keras.optimizers.SGD(0.1)
ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(200).batch(20)

for bx, by in ds:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(by - bx @ w))
    slope = tape.gradient(loss, w)
    opt.apply_gradients([(slope, w)])
