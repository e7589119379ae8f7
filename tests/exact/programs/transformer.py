"""Attention with a causal mask, layer normalisation, dropout, learned positions, clipped by norm."""
import keras
import numpy as np
from keras import layers, ops

keras.utils.set_random_seed(13)


class Positions(layers.Layer):
    def __init__(self, length, width):
        super().__init__()
        self.table = layers.Embedding(length, width)
        self.length = length

    def call(self, x):
        return x + self.table(ops.arange(self.length))


tokens = keras.Input((6,), dtype="int32")
h = Positions(6, 8)(layers.Embedding(12, 8)(tokens))
h = layers.LayerNormalization()(h + layers.MultiHeadAttention(2, 4, dropout=0.1)(h, h, use_causal_mask=True))
h = layers.Dropout(0.1)(layers.Dense(8, activation="gelu")(h))
model = keras.Model(tokens, layers.Dense(12)(h))
model.compile(keras.optimizers.AdamW(0.01, clipnorm=1.0), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
x = np.random.default_rng(0).integers(0, 12, (18, 7))
model.fit(x[:, :-1], x[:, 1:], batch_size=8, epochs=2, verbose=0)
text = x[:3, :6]
for _ in range(2):
    text = np.concatenate([text[:, 1:], model(text).numpy()[:, -1].argmax(-1)[:, None]], 1)
print(text)
