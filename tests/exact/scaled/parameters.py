"""A batch size that a function is passed, or has by default."""
import keras
import numpy as np

keras.utils.set_random_seed(2)


def train(x, y, batch_size=8, rate=0.05):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, activation="tanh"), keras.layers.Dense(1)])
    model.compile(optimizer=keras.optimizers.SGD(learning_rate=rate, momentum=0.9), loss="mae")
    return model.fit(x, y, batch_size=batch_size, epochs=2, verbose=0).history["loss"]


x = np.random.rand(40, 3).astype("float32")
print(train(x, x[:, 0]), train(x, x[:, 1], batch_size=5), train(x, x[:, 1], 10, rate=0.01))
