"""`steps_per_epoch` and `validation_steps` of endless data, and several steps in one execution."""
import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(12)
x = np.random.rand(34, 3).astype("float32")
data = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).shuffle(34, seed=4).batch(8).repeat()
model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, activation="relu"), keras.layers.Dense(1)])
model.compile(keras.optimizers.Nadam(0.01), "mse", metrics=["mae"], steps_per_execution=3)
# Data of its own: two iterators of one shuffled dataset draw from one generator, in the order of their threads.
others = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(8).repeat()
history = model.fit(data, steps_per_epoch=7, epochs=3, validation_data=others, validation_steps=2, verbose=0)
print(history.history["loss"], history.history["val_mae"], int(model.optimizer.iterations))
