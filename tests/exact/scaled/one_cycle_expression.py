"""A callback that counts steps, its warm-up and cosine in one expression."""
import math

import keras
import numpy as np

keras.utils.set_random_seed(1)


class OneCycle(keras.callbacks.Callback):
    def __init__(self, highest, warm, total):
        super().__init__()
        self.highest, self.warm, self.total, self.step, self.rates = highest, warm, total, 0, []

    def on_train_batch_begin(self, batch, logs=None):
        cosine = 0.5 * (1 + math.cos(math.pi * self.step / self.total))
        rate = self.highest * (self.step + 1) / self.warm if self.step < self.warm else self.highest * cosine
        self.model.optimizer.learning_rate.assign(rate)
        self.rates.append(rate)
        self.step += 1


x = np.random.rand(50, 4).astype("float32")
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(6, activation="tanh"), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.01, momentum=0.9), "mse")
cycle = OneCycle(0.05, 6, 20)
model.fit(x, x.sum(1), batch_size=10, epochs=4, callbacks=[cycle], verbose=0)
print(" ".join(f"{rate:.5f}" for rate in cycle.rates))
