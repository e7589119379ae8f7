# expect: HVD101 HVD202 HVD301 HVD401 HVD701 HVD801 HVD803
"""a `train_step` that adds up gradients and applies them every fourth time, by `tf.cond`"""

import numpy as np
import tensorflow as tf
from tensorflow import keras

rng = np.random.RandomState(0)
x = rng.normal(size=(256, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")


class Accumulating(keras.Model):
    def __init__(self, *args, every=4, **kwargs):
        super().__init__(*args, **kwargs)
        self.every = every
        self.count = tf.Variable(0, trainable=False)
        self.added = [tf.Variable(tf.zeros_like(v), trainable=False) for v in self.trainable_variables]

    def train_step(self, data):
        features, labels = data
        self.count.assign_add(1)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(labels - self(features, training=True)))
        gradients = tape.gradient(loss, self.trainable_variables)
        for total, gradient in zip(self.added, gradients):
            total.assign_add(gradient / self.every)
        tf.cond(tf.equal(self.count % self.every, 0), self.apply, lambda: None)
        return {"loss": loss}

    def apply(self):
        self.optimizer.apply_gradients(zip(self.added, self.trainable_variables))
        for total in self.added:
            total.assign(tf.zeros_like(total))


inputs = keras.Input((8,))
outputs = keras.layers.Dense(1)(keras.layers.Dense(16, activation="relu")(inputs))
model = Accumulating(inputs, outputs)
model.compile("adam", "mse")
model.fit(x, y, epochs=3, batch_size=8, verbose=0)
