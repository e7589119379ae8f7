"""A GAN: noise of a batch's size, two optimizers, and a loop over a dataset."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(9)
BATCH, NOISE = 8, 2
x = np.random.normal(2.0, 0.5, (40, 3)).astype("float32")
L = tf.keras.layers
generator = tf.keras.Sequential([L.Input((NOISE,)), L.Dense(6, activation="relu"), L.Dense(3)])
critic = tf.keras.Sequential([L.Input((3,)), L.Dense(6, activation="relu"), L.Dense(1)])
one, two = tf.keras.optimizers.Adam(0.01, beta_1=0.5), tf.keras.optimizers.SGD(0.02)
data = tf.data.Dataset.from_tensor_slices(x).shuffle(40, seed=2).batch(BATCH, drop_remainder=True)
cross = tf.keras.losses.BinaryCrossentropy(from_logits=True)
for epoch in range(3):
    for real in data:
        noise = tf.random.normal([BATCH, NOISE])
        with tf.GradientTape() as tape_g, tf.GradientTape() as tape_c:
            fake = generator(noise, training=True)
            right, wrong = critic(real, training=True), critic(fake, training=True)
            loss_g = cross(tf.ones_like(wrong), wrong)
            loss_c = cross(tf.ones_like(right), right) + cross(tf.zeros_like(wrong), wrong)
        one.apply_gradients(zip(tape_g.gradient(loss_g, generator.trainable_variables), generator.trainable_variables))
        two.apply_gradients(zip(tape_c.gradient(loss_c, critic.trainable_variables), critic.trainable_variables))
    print(epoch, f"{float(loss_g):.5f} {float(loss_c):.5f}")
