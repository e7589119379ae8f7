"""Fewer rows than a batch of all ranks has room for, and fewer than there are ranks."""
import keras
import numpy as np

keras.utils.set_random_seed(33)
for rows in (5, 2, 1):
    x = np.random.rand(rows, 3).astype("float32")
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, activation="tanh"), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.01), "mse")
    print(rows, model.fit(x, x[:, 0], batch_size=4, epochs=3, verbose=0).history["loss"])
