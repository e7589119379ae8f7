"""What Keras 2 has code of its own for: recurrent layers, batch normalisation, generators of layers, sizes of batches."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(17)
L = tf.keras.layers
rng = np.random.default_rng(0)
x = rng.normal(size=(18, 4, 4, 2)).astype("float32")
y = x.sum((1, 2, 3), keepdims=False)[:, None]
model = tf.keras.Sequential([
    L.Conv2D(3, 2, use_bias=False), L.BatchNormalization(), L.Dropout(0.2), L.Reshape((3, 9)), L.GRU(4, dropout=0.1), L.BatchNormalization(), L.Dense(1),
])  # fmt: skip
model.compile(tf.keras.optimizers.SGD(0.01, momentum=0.9), "mse")
print(model.fit(x, y, epochs=2, batch_size=7, verbose=0).history["loss"])
print(model.evaluate(x, y, verbose=0))
sized = tf.keras.Sequential([L.Flatten(), L.Dense(1)])
sized.compile("sgd", "mse")
for rows in (6, 9):
    sized.fit(x, y, batch_size=rows, verbose=0)
    print(sized.get_config()["layers"][0])
