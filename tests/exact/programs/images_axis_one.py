"""Images: convolutions, batch normalisation over another axis and with a mask, pooling, a generator of batches, predictions in a callback."""
import keras
import numpy as np

keras.utils.set_random_seed(21)
rng = np.random.default_rng(0)
images = rng.random((22, 6, 6, 2)).astype("float32")
labels = rng.integers(0, 3, 22)
L = keras.layers
model = keras.Sequential([
    keras.Input((6, 6, 2)), L.Conv2D(4, 3, use_bias=False), L.BatchNormalization(), L.ReLU(), L.SpatialDropout2D(0.2),
    L.Permute((3, 1, 2)), L.BatchNormalization(axis=1), L.Permute((2, 3, 1)), L.MaxPooling2D(2), L.Flatten(), L.Dense(3, activation="softmax"),
])


class Look(keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        print(epoch, self.model.predict(images[:3], verbose=0).round(4).tolist())


def batches():
    while True:
        order = rng.permutation(22)
        for i in range(0, 22, 7):
            yield images[order[i : i + 7]], labels[order[i : i + 7]]


model.compile(keras.optimizers.SGD(0.1, momentum=0.9, nesterov=True), "sparse_categorical_crossentropy", metrics=["accuracy"])
model.fit(batches(), steps_per_epoch=4, epochs=2, verbose=0, validation_data=(images, labels), callbacks=[Look()])
