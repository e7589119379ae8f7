"""Layers called one by one: the mask that an embedding gives goes with what the next ones are called on."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(17)
L = tf.keras.layers
rng = np.random.default_rng(0)
x = rng.integers(1, 12, (9, 5))
for row in x:
    row[rng.integers(1, 6):] = 0
y = (x[:, :1] > 5).astype("float32")
vectors, recurrent, last = L.Embedding(12, 4, mask_zero=True), L.LSTM(3), L.Dense(1)
optimizer = tf.keras.optimizers.SGD(0.5)
for step in range(3):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean((last(recurrent(vectors(x))) - y) ** 2)
    variables = [w for layer in (vectors, recurrent, last) for w in layer.trainable_variables]
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
    print(f"{float(loss):.5f}")
