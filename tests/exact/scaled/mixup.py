"""Mixup: each batch is mixed with itself in another order, by weights from a beta distribution."""
import keras
import numpy as np

keras.utils.set_random_seed(23)
x = np.random.normal(size=(60, 4)).astype("float32")
y = keras.utils.to_categorical((x.sum(1) > 0).astype(int), 2)
rng = np.random.default_rng(5)


def mixed(x, y, batch_size, alpha=0.4):
    while True:
        order = rng.permutation(len(x))
        for start in range(0, len(x), batch_size):
            rows = order[start : start + batch_size]
            weights = rng.beta(alpha, alpha, (len(rows), 1)).astype("float32")
            other = rng.permutation(rows)
            yield weights * x[rows] + (1 - weights) * x[other], weights * y[rows] + (1 - weights) * y[other]


model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(2, activation="softmax")])
model.compile(keras.optimizers.SGD(0.05, momentum=0.9), "categorical_crossentropy")
BATCH = 6
history = model.fit(mixed(x, y, BATCH), steps_per_epoch=len(x) // BATCH, epochs=3, verbose=0)
print(history.history["loss"])
