"""A rate that is computed from the batch size: the size is multiplied where it is used, the rate once."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(15)
BATCH = 4
RATE = 0.1 * BATCH / 16
x = np.random.rand(32, 3).astype("float32")
data = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(BATCH)
model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(4, activation="relu"), tf.keras.layers.Dense(1)])
model.compile(tf.keras.optimizers.SGD(RATE), "mse")
print(model.fit(data, epochs=2, verbose=0).history["loss"], RATE, int(model.optimizer.iterations))
