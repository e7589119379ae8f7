"""`LearningRateScheduler` around a Keras schedule, and one that reads the rate that it is given."""
import keras
import numpy as np

keras.utils.set_random_seed(4)
schedule = keras.optimizers.schedules.ExponentialDecay(0.01, 1, 0.7)
x = np.random.rand(26, 3).astype("float32")
model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, activation="elu"), keras.layers.Dropout(0.2), keras.layers.Dense(1)])
model.compile("adam", "mae")
history = model.fit(x, x[:, 0], batch_size=7, epochs=3, verbose=0, callbacks=[keras.callbacks.LearningRateScheduler(lambda e: float(schedule(e)))])
print(history.history["learning_rate"])
model.fit(x, x[:, 0], batch_size=7, epochs=2, verbose=0, callbacks=[keras.callbacks.LearningRateScheduler(lambda e, rate: rate * 0.5)])
print(float(model.optimizer.learning_rate))
