"""A batch size in a dictionary, by which steps are counted, too."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(1)
config = {"batch_size": 6, "epochs": 2, "rate": 0.02}
x = np.random.rand(48, 3).astype("float32")
data = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).shuffle(48, seed=1).batch(config["batch_size"]).repeat()
model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(4, activation="relu"), tf.keras.layers.Dense(1)])
model.compile(tf.keras.optimizers.AdamW(config["rate"], weight_decay=0.05), "mse")
history = model.fit(data, steps_per_epoch=48 // config["batch_size"], epochs=config["epochs"], verbose=0)
print(history.history["loss"], int(model.optimizer.iterations))
