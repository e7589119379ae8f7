"""Callbacks that lower the rate, and end the training."""
import keras
import numpy as np

keras.utils.set_random_seed(10)
x, y = np.random.rand(36, 3).astype("float32"), np.random.rand(36).astype("float32")
model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(6, activation="relu"), keras.layers.Dense(1)])
model.compile("sgd", "mse")
stop = keras.callbacks.EarlyStopping(patience=2, min_delta=0.01, restore_best_weights=True)
lower = keras.callbacks.ReduceLROnPlateau(factor=0.5, patience=1, min_delta=0.01, min_lr=0.002)
history = model.fit(x, y, validation_split=0.25, epochs=8, batch_size=5, verbose=0, callbacks=[stop, lower])
print(history.history["learning_rate"], len(history.epoch), f"{float(model.optimizer.learning_rate):.5f}")
