# expect: HVD101 HVD202 HVD401 HVD701 HVD801 HVD803
# Keras 3 alone: SciKeras of this TensorFlow is for Keras 3
"""SciKeras, which compiles by names what a function builds, draws its choices, and goes on with what it has fitted"""

import functools

import numpy as np
import tensorflow as tf
from scikeras.wrappers import KerasRegressor
from sklearn.model_selection import RandomizedSearchCV

rng = np.random.RandomState(0)
x = rng.normal(size=(120, 8)).astype("float32")
y = x @ rng.normal(size=8)


def build(meta, width):
    return tf.keras.Sequential(
        [
            tf.keras.layers.Input(meta["X_shape_"][1:]),
            tf.keras.layers.Dense(width, activation="relu"),
            tf.keras.layers.Dense(1),
        ]
    )


model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile("sgd", "mse")
model.fit(x, y, batch_size=20, verbose=0)
stopping = tf.keras.callbacks.EarlyStopping("loss", patience=3)
regressor = KerasRegressor(
    functools.partial(build, width=4),
    loss="mse",
    optimizer="sgd",
    optimizer__learning_rate=0.05,
    batch_size=20,
    epochs=2,
    verbose=1,
    callbacks=[stopping],
)
search = RandomizedSearchCV(
    regressor, {"optimizer__learning_rate": [0.1, 0.05, 0.01]}, n_iter=2, cv=2
)
best = search.fit(x, y).best_estimator_
best.partial_fit(x, y)
print(best.score(x, y) == best.score(x, y))
