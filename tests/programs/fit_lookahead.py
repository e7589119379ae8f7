# expect: HVD101 HVD202 HVD401 HVD701 HVD801 HVD803 HVD804
"""slow weights, kept from before the first update, that the trained ones are drawn back to"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(300, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")


class Lookahead(tf.keras.callbacks.Callback):
    def __init__(self, every=3, share=0.5):
        super().__init__()
        self.every, self.share, self.count = every, share, 0

    def on_train_begin(self, logs=None):
        self.slow = self.model.get_weights()

    def on_train_batch_end(self, batch, logs=None):
        self.count += 1
        if self.count % self.every == 0:
            fast = self.model.get_weights()
            self.slow = [s + self.share * (f - s) for s, f in zip(self.slow, fast)]
            self.model.set_weights(self.slow)


model = tf.keras.Sequential(
    [tf.keras.Input((8,)), tf.keras.layers.Dense(8, activation="relu"), tf.keras.layers.Dense(1)]
)
model.compile(tf.keras.optimizers.SGD(0.01), "mse")
model.fit(x, y, epochs=2, batch_size=15, verbose=0, callbacks=[Lookahead()])
