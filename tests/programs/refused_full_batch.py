# refused HVD504
"""the whole data at each step: nothing to divide"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

w = tf.Variable(tf.zeros((8, 1)))
opt = tf.keras.optimizers.SGD(0.1)
for _ in range(100):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(y - x @ w))
    opt.apply_gradients([(tape.gradient(loss, w), w)])
