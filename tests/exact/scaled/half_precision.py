"""Scaled losses, and a schedule, in one optimizer."""
import keras
import numpy as np

keras.utils.set_random_seed(14)
x = np.random.rand(40, 4).astype("float32")
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(6, activation="relu"), keras.layers.Dense(1)])
schedule = keras.optimizers.schedules.PiecewiseConstantDecay([6, 12], [0.05, 0.02, 0.01])
model.compile(keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(schedule, momentum=0.9)), "mse")
print(model.fit(x, x[:, 0], batch_size=5, epochs=2, verbose=0).history["loss"])
