"""Sequences with masks, a sparse gradient for the embedding, and clipping by the global norm."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(5)
L = tf.keras.layers
rng = np.random.default_rng(0)
x = rng.integers(1, 20, size=(26, 7))
for row in x:
    row[rng.integers(3, 8):] = 0
y = (x[:, 0] > 10).astype("float32")
model = tf.keras.Sequential([L.Embedding(20, 6, mask_zero=True), L.LSTM(5, dropout=0.2), L.Dense(1, activation="sigmoid")])
model.compile(tf.keras.optimizers.Adam(0.01, global_clipnorm=0.5), "binary_crossentropy", metrics=["accuracy"])
model.fit(x, y, epochs=2, batch_size=8, verbose=0)
print(model.predict(x[:3], verbose=0).ravel())
