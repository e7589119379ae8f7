"""A GAN with a gradient penalty: second derivatives through two shared calls."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(2)
L = tf.keras.layers
generator = tf.keras.Sequential([L.Input((3,)), L.Dense(8, activation="relu"), L.Dense(4)])
critic = tf.keras.Sequential([L.Input((4,)), L.Dense(8, activation="tanh"), L.Dense(1)])
g_opt, c_opt = tf.keras.optimizers.Adam(0.01), tf.keras.optimizers.Adam(0.01)
data = np.random.default_rng(0).normal(2, 1, size=(26, 4)).astype("float32")


@tf.function
def step(real):
    n = tf.shape(real)[0]
    noise = tf.random.normal([n, 3])
    with tf.GradientTape() as tape:
        fake = generator(noise, training=True)
        mix = tf.random.uniform([n, 1])
        between = real + mix * (fake - real)
        with tf.GradientTape() as inner:
            inner.watch(between)
            score = critic(between, training=True)
        slope = tf.norm(inner.gradient(score, between), axis=1)
        penalty = tf.reduce_mean((slope - 1.0) ** 2)
        c_loss = tf.reduce_mean(critic(fake)) - tf.reduce_mean(critic(real)) + 10.0 * penalty
    c_opt.apply_gradients(zip(tape.gradient(c_loss, critic.trainable_variables), critic.trainable_variables))
    with tf.GradientTape() as tape:
        g_loss = -tf.reduce_mean(critic(generator(noise, training=True)))
    g_opt.apply_gradients(zip(tape.gradient(g_loss, generator.trainable_variables), generator.trainable_variables))
    return c_loss, g_loss


for epoch in range(2):
    for batch in tf.data.Dataset.from_tensor_slices(data).shuffle(26, seed=3).batch(8):
        losses = step(batch)
    print(epoch, *(f"{float(l):.5f}" for l in losses))
