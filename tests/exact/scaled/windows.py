"""`timeseries_dataset_from_array` without a batch size."""
import keras
import numpy as np

keras.utils.set_random_seed(8)
series = np.sin(np.arange(300) / 7).astype("float32")
data = keras.utils.timeseries_dataset_from_array(series[:-5], series[5:], sequence_length=5, shuffle=False)
model = keras.Sequential([keras.Input((5, 1)), keras.layers.GRU(3), keras.layers.Dense(1)])
model.compile(keras.optimizers.Adam(keras.optimizers.schedules.ExponentialDecay(0.02, 3, 0.7)), "mse")
print(model.fit(data, epochs=2, verbose=0).history["loss"], float(model.optimizer.learning_rate))
