# expect: HVD101 HVD202 HVD401 HVD403 HVD601 HVD701 HVD801 HVD803
# Not tf-keras: Keras Tuner builds models of Keras 3 wherever that is installed
"""a tuner that builds, fits and compares models, the best of which is built again and trained"""

import keras_tuner
import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")


def build(choices):
    units = choices.Int("units", 4, 32, step=4)
    model = tf.keras.Sequential([tf.keras.layers.Dense(units, activation="relu"), tf.keras.layers.Dense(1)])
    rate = choices.Choice("rate", [0.1, 0.01, 0.001])
    model.compile(tf.keras.optimizers.SGD(learning_rate=rate), "mse")
    return model


tuner = keras_tuner.RandomSearch(build, objective="val_loss", max_trials=3, directory="trials")
tuner.search_space_summary()
tuner.search(x, y, epochs=2, validation_split=0.2)
tuner.results_summary()
best = tuner.get_best_hyperparameters()[0]
print(best.values)
model = tuner.hypermodel.build(best)
model.fit(x, y, batch_size=50, verbose=2)
