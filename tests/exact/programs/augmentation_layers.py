"""Keras' augmentation layers within the model: flips, rotations, zooms, crops, contrast, noise."""
import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(21)
x = np.random.default_rng(0).random((22, 8, 8, 3)).astype("float32")
y = np.arange(22) % 2
model = keras.Sequential([
    keras.Input((8, 8, 3)),
    layers.RandomFlip("horizontal"),
    layers.RandomRotation(0.1),
    layers.RandomZoom(0.2),
    layers.RandomContrast(0.2),
    layers.RandomCrop(7, 7),
    layers.GaussianNoise(0.05),
    layers.Conv2D(4, 3),
    layers.SpatialDropout2D(0.2),
    layers.GlobalAveragePooling2D(),
    layers.Dense(2),
])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
history = model.fit(x, y, batch_size=8, epochs=2, verbose=0)
print(history.history["loss"], model.predict(x[:3], verbose=0).ravel())
