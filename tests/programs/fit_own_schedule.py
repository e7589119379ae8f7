# expect: HVD101 HVD202 HVD401 HVD403 HVD701 HVD801 HVD803
"""a schedule class of the program's own, warm-up and decay in one"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")


class Noam(tf.keras.optimizers.schedules.LearningRateSchedule):
    def __init__(self, width, warmup=20):
        super().__init__()
        self.width = tf.cast(width, tf.float32)
        self.warmup = warmup

    def __call__(self, step):
        step = tf.cast(step, tf.float32) + 1.0
        return tf.math.rsqrt(self.width) * tf.minimum(tf.math.rsqrt(step), step * self.warmup**-1.5)


model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.Adam(Noam(128), beta_1=0.9, beta_2=0.98)
model.compile(optimizer, "mse")
model.fit(x, y, epochs=2, batch_size=16)
