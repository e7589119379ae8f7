"""Random search: rates, sizes of batches and units are drawn, each model is trained, and the best is trained on."""
import random

import keras
import numpy as np

keras.utils.set_random_seed(27)
x = np.random.rand(48, 3).astype("float32")
y = x[:, 0] - x[:, 1]


def build(units, rate):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(units, activation="relu"), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(rate), "mse")
    return model


best = None
for trial in range(4):
    settings = {"units": random.choice([4, 8]), "rate": 10 ** random.uniform(-3, -1.5), "batch_size": random.choice([4, 6])}
    model = build(settings["units"], settings["rate"])
    loss = model.fit(x, y, batch_size=settings["batch_size"], epochs=2, verbose=0).history["loss"][-1]
    print(trial, settings, f"{loss:.6f}")
    if best is None or loss < best[0]:
        best = loss, settings, model
model = best[2]
print(model.fit(x, y, batch_size=best[1]["batch_size"], epochs=1, verbose=0).history["loss"])
