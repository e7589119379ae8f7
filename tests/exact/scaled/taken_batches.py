"""Data that are split by numbers of batches: these keep their size, and are joined."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(7)
x = np.random.rand(60, 3).astype("float32")
data = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(6)
train, test = data.take(7), data.skip(7)
model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(4, activation="elu"), tf.keras.layers.Dense(1)])
model.compile("nadam", "mse")
history = model.fit(train, validation_data=test, epochs=2, verbose=0)
print(history.history, int(model.optimizer.iterations), len(test))
