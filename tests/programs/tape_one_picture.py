# expect: HVD301 HVD701 HVD801
"""nothing to divide, one picture that is changed until it looks like another: every rank does what one process does"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
aim = tf.constant(rng.normal(size=(1, 8, 8, 1)).astype("float32"))
extractor = tf.keras.Sequential([tf.keras.layers.Conv2D(4, 3), tf.keras.layers.Flatten()])
wanted = extractor(aim)
picture = tf.Variable(tf.zeros((1, 8, 8, 1)))
rate = tf.keras.optimizers.schedules.ExponentialDecay(0.1, decay_steps=10, decay_rate=0.9)
opt = tf.keras.optimizers.Adam(rate)


@tf.function
def step():
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum((extractor(picture) - wanted) ** 2) + tf.image.total_variation(picture)[0]
    opt.apply_gradients([(tape.gradient(loss, picture), picture)])
    picture.assign(tf.clip_by_value(picture, -3.0, 3.0))
    return loss


for n in range(20):
    print(n, float(step()))
