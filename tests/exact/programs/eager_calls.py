"""Eager calls: `run_eagerly`, layers one by one, a batch smaller than the ranks, one row, a variable as input."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(11)
rng = np.random.default_rng(0)
x, y = rng.normal(size=(19, 4)).astype("float32"), rng.normal(size=(19, 1)).astype("float32")
model = tf.keras.Sequential([tf.keras.layers.Dense(5, activation="relu"), tf.keras.layers.GaussianNoise(0.1), tf.keras.layers.Dense(1)])
model.compile("rmsprop", "mse", run_eagerly=True)
model.fit(x, y, epochs=2, batch_size=9, verbose=0)
print(model(x[:2]).numpy().ravel(), model(x[:1]).numpy().ravel(), model(x[:3]).numpy().ravel())
first, second = tf.keras.layers.Dense(6, activation="tanh"), tf.keras.layers.Dense(1)
optimizer = tf.keras.optimizers.Adam(0.01)
for step in range(3):
    with tf.GradientTape(persistent=True) as tape:
        h = tf.nn.dropout(first(x), 0.2)
        loss = tf.reduce_mean((second(h) - y) ** 2)
    variables = first.trainable_variables + second.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
    print(f"{float(loss):.5f} {float(tf.norm(tape.gradient(loss, h))):.5f}")
image = tf.Variable(x)
for _ in range(2):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(model(image) ** 2)
    image.assign_sub(0.1 * tape.gradient(loss, image))
print(f"{float(tf.reduce_sum(image)):.5f}")
