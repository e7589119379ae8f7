"""Batches of all rows, which converge at one process's rate only: `batch_size=len(x)`, `ds.batch(len(x))`."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(2)
x = np.random.normal(size=(31, 3)).astype("float32")
y = (x @ [[1.0], [-2.0], [0.5]]).astype("float32")


def make():
    return tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(1)])


model = make()
model.compile(tf.keras.optimizers.SGD(0.6), "mse")
history = model.fit(x, y, batch_size=len(x), epochs=15, verbose=0)
print(f"{history.history['loss'][-1]:.6f}")
model, optimizer = make(), tf.keras.optimizers.SGD(0.6)
for _ in range(15):
    for a, b in tf.data.Dataset.from_tensor_slices((x, y)).batch(len(x)):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(a) - b) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
print(f"{float(loss):.6f}")
