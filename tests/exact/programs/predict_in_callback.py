"""A callback that predicts, evaluates and prints, with Keras' own progress bars between."""
import keras
import numpy as np

keras.utils.set_random_seed(15)
x = np.random.rand(21, 3).astype("float32")


class Show(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        print(epoch, self.model.predict(x[:4], verbose=0).ravel(), sorted(logs))
        self.model.evaluate(x, x[:, 0], batch_size=6, verbose=2)

    def on_train_batch_end(self, batch, logs=None):
        if batch == 1:
            print(batch, f"{logs['loss']:.5f}", self.model(x[:2], training=False).numpy().ravel())


model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, activation="sigmoid"), keras.layers.Dropout(0.3), keras.layers.Dense(1)])
model.compile("adam", "mse", metrics=[keras.metrics.RootMeanSquaredError()])
model.fit(x, x[:, 0], batch_size=6, epochs=3, verbose=2, callbacks=[Show()])
