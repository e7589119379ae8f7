# expect: HVD101 HVD202 HVD301 HVD401 HVD403 HVD701 HVD801 HVD803
# Keras 3 alone: Keras 2 has no `optimizer.apply` and no metrics of `compute_metrics`
"""a `train_step` of the model's own that applies, with metrics of its own"""

import keras
import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(96, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")


class Weighted(keras.Model):
    def __init__(self):
        super().__init__()
        self.hidden, self.out = keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)
        self.seen = keras.metrics.Mean(name="seen")

    def call(self, inputs):
        return self.out(self.hidden(inputs))

    @property
    def metrics(self):
        return [self.seen]

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = keras.ops.mean(keras.ops.square(y - self(x, training=True)))
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        self.seen.update_state(loss)
        return {"seen": self.seen.result()}


model = Weighted()
model.compile(optimizer=keras.optimizers.SGD(0.05))
model.fit(x, y, batch_size=16, epochs=2)
