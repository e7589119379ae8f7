"""A mixture of experts with a loss that balances them over the batch, and a codebook that follows its inputs."""
import keras
import numpy as np
from keras import layers, ops

keras.utils.set_random_seed(23)


class Experts(layers.Layer):
    def __init__(self, count, width):
        super().__init__()
        self.router = layers.Dense(count, activation="softmax")
        self.experts = [layers.Dense(width, activation="relu") for _ in range(count)]

    def call(self, x):
        weights = self.router(x)
        chosen = ops.one_hot(ops.argmax(weights, -1), len(self.experts))
        self.add_loss(0.1 * len(self.experts) * ops.sum(ops.mean(weights, 0) * ops.mean(chosen, 0)))
        parts = ops.stack([expert(x) for expert in self.experts], 1)
        return ops.sum(parts * (weights * chosen)[..., None], 1)


class Codebook(layers.Layer):
    def build(self, shape):
        self.codes = self.add_weight(shape=(5, shape[-1]), initializer="glorot_uniform", trainable=False)

    def call(self, x, training=False):
        nearest = ops.argmin(ops.sum((x[:, None] - self.codes) ** 2, -1), -1)
        if training:
            marks = ops.one_hot(nearest, 5)
            means = ops.matmul(ops.transpose(marks), x) / (ops.sum(marks, 0)[:, None] + 1e-3)
            self.codes.assign(0.9 * self.codes + 0.1 * means)
        codes = ops.take(self.codes, nearest, 0)
        return x + ops.stop_gradient(codes - x)


x = np.random.rand(34, 5).astype("float32")
for part in (Experts(3, 6), Codebook()):
    model = keras.Sequential([keras.Input((5,)), layers.Dense(6, activation="tanh"), part, layers.Dense(1)])
    model.compile("adam", "mse")
    history = model.fit(x, x.sum(1), batch_size=9, epochs=2, verbose=0)
    print([round(value, 5) for value in history.history["loss"]])
