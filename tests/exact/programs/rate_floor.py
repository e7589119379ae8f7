"""Rates with a floor: `ReduceLROnPlateau(min_lr=…)`, and a callback's `max`."""
import keras
import numpy as np

keras.utils.set_random_seed(9)


class Halve(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        rate = float(self.model.optimizer.learning_rate)
        self.model.optimizer.learning_rate = max(rate * 0.5, 0.004)


x, y = np.random.rand(33, 3).astype("float32"), np.random.rand(33).astype("float32")
for callback in (keras.callbacks.ReduceLROnPlateau("val_loss", factor=0.3, patience=0, min_delta=0.05, min_lr=0.004), Halve()):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(5, activation="relu"), keras.layers.Dense(1)])
    model.compile(keras.optimizers.RMSprop(0.02), "mse")
    model.fit(x, y, batch_size=8, epochs=5, validation_split=0.2, verbose=0, callbacks=[callback])
    print(f"{float(model.optimizer.learning_rate):.5f}")
