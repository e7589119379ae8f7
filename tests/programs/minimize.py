# expect: HVD101 HVD701 HVD801 HVD803
# Keras 2 alone: optimizers of Keras 3 have no `minimize`
"""optimizer.minimize of a loss function"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

w = tf.Variable(tf.random.normal((8, 1)))
opt = tf.keras.optimizers.Adam(0.1)
ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(200).batch(20)

for bx, by in ds:
    opt.minimize(lambda: tf.reduce_mean(tf.square(by - bx @ w)), [w])
print(float(tf.norm(w)))
