"""Strings into the model: a vocabulary that is adapted, ragged texts, hashes, and a lookup before training."""
import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(33)
texts = np.array([" ".join(f"w{(i * j) % 7}" for j in range(1, 2 + i % 5)) for i in range(26)])
y = np.array([len(text) % 2 for text in texts], "float32")
vectors = layers.TextVectorization(output_sequence_length=5)
vectors.adapt(texts)
model = keras.Sequential([keras.Input((), dtype="string"), vectors, layers.Embedding(12, 4, mask_zero=True), layers.GlobalAveragePooling1D(), layers.Dense(1)])
model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True))
history = model.fit(tf.data.Dataset.from_tensor_slices((texts, y)).shuffle(26, seed=1).batch(7), epochs=2, verbose=0)
print(history.history["loss"])
ready = tf.data.Dataset.from_tensor_slices((texts, y)).batch(7).map(lambda t, y: (vectors(t), y)).cache()
ranks = keras.Sequential([keras.Input((5,), dtype="int64"), layers.Embedding(12, 4, mask_zero=True), layers.LSTM(4), layers.Dense(1)])
ranks.compile(keras.optimizers.Adagrad(0.1), "mse")
print(ranks.fit(ready, epochs=2, verbose=0).history["loss"])
hashed = keras.Sequential([layers.Hashing(6), layers.Embedding(6, 3), layers.Flatten(), layers.Dense(1)])
print(hashed(np.arange(20).reshape(10, 2)).numpy().ravel())
