"""A batch size and a rate that a configuration holds as text."""
import json

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(31)
config = json.loads('{"batch_size": "6", "rate": "0.02", "epochs": "2"}')
x = np.random.rand(48, 3).astype("float32")
batch_size = int(config["batch_size"])
data = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).shuffle(48, seed=1).batch(batch_size).repeat()
model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(4, activation="relu"), tf.keras.layers.Dense(1)])
model.compile(tf.keras.optimizers.SGD(float(config["rate"])), "mse")
history = model.fit(data, steps_per_epoch=len(x) // batch_size, epochs=int(config["epochs"]), verbose=0)
print(history.history["loss"], int(model.optimizer.iterations))
