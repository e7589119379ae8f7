"""The optimizer's own count of steps ends the loop, beside a schedule that reads the same count."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(5)
rate = tf.keras.optimizers.schedules.PolynomialDecay(0.1, 60, 0.01)
optimizer = tf.keras.optimizers.SGD(rate)
model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(1)])
x = np.random.rand(60, 3).astype("float32")
data = tf.data.Dataset.from_tensor_slices((x, x[:, :1])).repeat().batch(9)


@tf.function
def step(a, b):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.keras.losses.huber(b, model(a)))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    return loss


for a, b in data:
    loss = step(a, b)
    if optimizer.iterations.numpy() >= 40:
        break
print(int(optimizer.iterations), f"{float(optimizer.learning_rate):.5f} {float(loss):.6f}")
