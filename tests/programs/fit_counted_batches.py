# expect: HVD101 HVD202 HVD401 HVD701 HVD801 HVD803 HVD804
"""a callback that counts batches, warms the rate up by them and stops"""

import numpy as np
import tensorflow as tf

rng = np.random.default_rng(2)
x = rng.normal(size=(128, 4)).astype("float32")
y = x.sum(axis=1, keepdims=True)
STEPS = len(x) // 16


class Warmup(tf.keras.callbacks.Callback):
    def __init__(self, peak, total):
        super().__init__()
        self.peak, self.total, self.seen = peak, total, 0

    def on_train_batch_begin(self, batch, logs=None):
        rate = self.peak * min(1.0, (self.seen + 1) / self.total)
        self.model.optimizer.learning_rate = rate

    def on_train_batch_end(self, batch, logs=None):
        self.seen += 1
        if self.seen == 6:
            self.model.stop_training = True


model = tf.keras.Sequential([tf.keras.layers.Input((4,)), tf.keras.layers.Dense(1)])
model.compile(tf.keras.optimizers.SGD(0.01), loss="mse")
model.fit(x, y, batch_size=16, epochs=3, callbacks=[Warmup(0.05, STEPS)], verbose=0)
