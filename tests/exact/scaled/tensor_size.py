"""A batch size that is a tensor, by which steps are counted, and one that is a variable of NumPy's."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(32)
size = tf.constant(5, tf.int64)
x = np.random.rand(40, 3).astype("float32")
steps = len(x) // int(size)
model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(4, activation="relu"), tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.Adam(0.01)
data = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(size)
for epoch in range(2):
    for a, b in data:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((model(a, training=True) - b) ** 2)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    print(epoch, steps, f"{float(loss):.6f}", int(optimizer.iterations))
