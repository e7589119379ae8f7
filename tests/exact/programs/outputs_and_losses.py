"""Several outputs in a dict with losses, weights and masks of their own; a ragged last batch; a loss over the sequence."""
import keras
import numpy as np
from keras import layers, ops

keras.utils.set_random_seed(37)
tokens = keras.Input((5,), dtype="int32", name="tokens")
h = layers.Embedding(9, 6, mask_zero=True)(tokens)
h = layers.LSTM(6, return_sequences=True)(h)
tags = layers.Dense(4, name="tags")(h)
score = layers.Dense(1, use_bias=False, name="score")(layers.GlobalMaxPooling1D()(h))
model = keras.Model({"tokens": tokens}, {"tags": tags, "score": score})


class Focal(keras.losses.Loss):
    def call(self, y_true, y_pred):
        p = ops.take_along_axis(ops.softmax(y_pred), ops.cast(y_true, "int32")[..., None], -1)[..., 0]
        return -((1 - p) ** 2) * ops.log(p + 1e-7)


def correlation(y_true, y_pred):
    a, b = y_true - ops.mean(y_true), ops.reshape(y_pred, ops.shape(y_true))
    b = b - ops.mean(b)
    return 1 - ops.sum(a * b) / (ops.sqrt(ops.sum(a * a) * ops.sum(b * b)) + 1e-6)


model.compile(keras.optimizers.Adam(0.01), {"tags": Focal(), "score": correlation}, loss_weights={"tags": 1.0, "score": 0.3}, metrics={"tags": ["sparse_categorical_accuracy"], "score": [keras.metrics.R2Score()]})
rng = np.random.default_rng(7)
x = rng.integers(0, 9, (29, 5))
y = {"tags": x % 4, "score": x.sum(1, keepdims=True).astype("float32")}
history = model.fit({"tokens": x}, y, batch_size=8, epochs=2, validation_split=0.3, verbose=0)
for name in sorted(history.history):
    print(name, [round(value, 4) for value in history.history[name]])
