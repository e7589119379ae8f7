# expect: HVD101 HVD301 HVD401 HVD403 HVD701 HVD801 HVD803
"""a `train_step` whose updates stand in methods that it calls"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
images = rng.normal(size=(128, 8)).astype("float32")


class GAN(tf.keras.Model):
    def __init__(self, discriminator, generator):
        super().__init__()
        self.discriminator, self.generator = discriminator, generator

    def compile(self, d_optimizer, g_optimizer, loss_fn):
        super().compile()
        self.d_optimizer, self.g_optimizer, self.loss_fn = d_optimizer, g_optimizer, loss_fn

    def discriminator_step(self, real, noise):
        fake = self.generator(noise)
        labels = tf.concat([tf.ones_like(real[:, :1]), tf.zeros_like(fake[:, :1])], 0)
        with tf.GradientTape() as tape:
            loss = self.loss_fn(labels, self.discriminator(tf.concat([real, fake], 0)))
        weights = self.discriminator.trainable_weights
        self.d_optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return loss

    def generator_step(self, noise):
        with tf.GradientTape() as tape:
            decided = self.discriminator(self.generator(noise))
            loss = self.loss_fn(tf.ones_like(decided), decided)
        weights = self.generator.trainable_weights
        self.g_optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return loss

    def train_step(self, real):
        noise = tf.random.normal((tf.shape(real)[0], 4))
        return {
            "discriminator": self.discriminator_step(real, noise),
            "generator": self.generator_step(noise),
        }


gan = GAN(
    tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)]),
    tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(8)]),
)
gan.compile(
    tf.keras.optimizers.Adam(1e-3),
    tf.keras.optimizers.Adam(2e-3),
    tf.keras.losses.BinaryCrossentropy(from_logits=True),
)
gan.fit(tf.data.Dataset.from_tensor_slices(images).batch(16), epochs=2, verbose=2)
