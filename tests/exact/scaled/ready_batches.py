"""Batches of which no number says how large they are: they are joined."""
import keras
import numpy as np

keras.utils.set_random_seed(6)


def ready():
    while True:
        for rows in np.array_split(x, 9):
            yield rows, rows.sum(1)


x = np.random.rand(40, 3).astype("float32")
model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, activation="relu"), keras.layers.Dense(1)])
model.compile(keras.optimizers.Adam(0.01), "mse")
history = model.fit(ready(), steps_per_epoch=4, epochs=2, verbose=0)
print(history.history["loss"])
