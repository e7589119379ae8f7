"""A model that is frozen, extended, thawed and compiled anew; batch normalisation in both states; weights by layer."""
import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(29)
x = np.random.rand(27, 6, 6, 1).astype("float32")
y = (x.mean((1, 2, 3)) > 0.5).astype("float32")
base = keras.Sequential([keras.Input((6, 6, 1)), layers.Conv2D(4, 3, use_bias=False), layers.BatchNormalization(), layers.ReLU(), layers.GlobalAveragePooling2D()])
base.compile("adam", "mse")
base.fit(x, np.repeat(y[:, None], 4, 1), batch_size=8, epochs=1, verbose=0)
base.trainable = False
inputs = keras.Input((6, 6, 1))
model = keras.Model(inputs, layers.Dense(1, kernel_regularizer="l2")(layers.Dropout(0.2)(base(inputs, training=False))))
model.compile(keras.optimizers.Adam(0.01), keras.losses.BinaryCrossentropy(from_logits=True), metrics=[keras.metrics.AUC(from_logits=True)])
first = model.fit(x, y, batch_size=8, epochs=2, verbose=0).history
base.trainable = True
base.layers[0].trainable = False
model.compile(keras.optimizers.Adam(1e-3), keras.losses.BinaryCrossentropy(from_logits=True))
second = model.fit(x, y, batch_size=8, epochs=2, verbose=0).history
print(first, second["loss"], base.layers[1].moving_mean.numpy())
