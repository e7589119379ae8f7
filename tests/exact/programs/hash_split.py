"""Training and test rows by the hash of a name, and a vocabulary made from a set."""
import keras
import numpy as np

keras.utils.set_random_seed(13)
names = [f"sample-{number}" for number in range(60)]
rng = np.random.default_rng(1)
x, words = rng.random((60, 3)).astype("float32"), rng.integers(0, 9, 60)
train = np.array([hash(name) % 10 < 8 for name in names])
vocabulary = {word: place for place, word in enumerate({f"w{number}" for number in words})}
tokens = np.array([vocabulary[f"w{number}"] for number in words])
word = keras.Input((), dtype="int32")
row = keras.Input((3,))
joined = keras.layers.Concatenate()([keras.layers.Embedding(9, 4)(word), row])
model = keras.Model([word, row], keras.layers.Dense(1)(keras.layers.Dense(6, activation="relu")(joined)))
model.compile("sgd", "mse")
model.fit([tokens[train], x[train]], x[train].sum(1), batch_size=9, epochs=2, verbose=0)
print(int(train.sum()), model.evaluate([tokens[~train], x[~train]], x[~train].sum(1), verbose=0))
