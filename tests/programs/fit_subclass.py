# expect: HVD101 HVD202 HVD401 HVD403 HVD701 HVD801 HVD803
"""a subclassed model"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

class Net(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.hidden = tf.keras.layers.Dense(16, activation="relu")
        self.out = tf.keras.layers.Dense(1)

    def call(self, inputs):
        return self.out(self.hidden(inputs))


net = Net()
net.compile(optimizer=tf.keras.optimizers.Adagrad(0.05), loss="mse")
net.fit(x, y, epochs=2, batch_size=16)
net.evaluate(x, y)
