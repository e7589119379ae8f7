# expect: HVD101 HVD301 HVD401 HVD403 HVD701 HVD801 HVD803
"""a GAN as one model: a `compile` and a `train_step` of its own, two optimizers, two tapes of one name"""

import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers
import numpy as np

rng = np.random.RandomState(0)
images = rng.normal(size=(128, 8)).astype("float32")
dataset = tf.data.Dataset.from_tensor_slices(images).shuffle(128).batch(16)

discriminator = keras.Sequential([keras.Input(shape=(8,)), layers.Dense(16), layers.LeakyReLU(0.2), layers.Dense(1)])
latent_dim = 4
generator = keras.Sequential([keras.Input(shape=(latent_dim,)), layers.Dense(16, activation="relu"), layers.Dense(8)])


class GAN(keras.Model):
    def __init__(self, discriminator, generator, latent_dim):
        super().__init__()
        self.discriminator = discriminator
        self.generator = generator
        self.latent_dim = latent_dim

    def compile(self, d_optimizer, g_optimizer, loss_fn):
        super().compile()
        self.d_optimizer = d_optimizer
        self.g_optimizer = g_optimizer
        self.loss_fn = loss_fn
        self.d_loss_metric = keras.metrics.Mean(name="d_loss")
        self.g_loss_metric = keras.metrics.Mean(name="g_loss")

    @property
    def metrics(self):
        return [self.d_loss_metric, self.g_loss_metric]

    def train_step(self, real_images):
        batch_size = tf.shape(real_images)[0]
        noise = tf.random.normal(shape=(batch_size, self.latent_dim))
        fake = self.generator(noise)
        combined = tf.concat([fake, real_images], axis=0)
        labels = tf.concat([tf.ones((batch_size, 1)), tf.zeros((batch_size, 1))], axis=0)
        with tf.GradientTape() as tape:
            predictions = self.discriminator(combined)
            d_loss = self.loss_fn(labels, predictions)
        grads = tape.gradient(d_loss, self.discriminator.trainable_weights)
        self.d_optimizer.apply_gradients(zip(grads, self.discriminator.trainable_weights))

        noise = tf.random.normal(shape=(batch_size, self.latent_dim))
        misleading = tf.zeros((batch_size, 1))
        with tf.GradientTape() as tape:
            predictions = self.discriminator(self.generator(noise))
            g_loss = self.loss_fn(misleading, predictions)
        grads = tape.gradient(g_loss, self.generator.trainable_weights)
        self.g_optimizer.apply_gradients(zip(grads, self.generator.trainable_weights))
        self.d_loss_metric.update_state(d_loss)
        self.g_loss_metric.update_state(g_loss)
        return {"d_loss": self.d_loss_metric.result(), "g_loss": self.g_loss_metric.result()}


class Monitor(keras.callbacks.Callback):
    def __init__(self, num_img=3):
        self.num_img = num_img

    def on_epoch_end(self, epoch, logs=None):
        images = self.model.generator(tf.random.normal((self.num_img, 4)))
        np.save(f"generated_{epoch}.npy", images.numpy())


gan = GAN(discriminator=discriminator, generator=generator, latent_dim=latent_dim)
gan.compile(
    d_optimizer=keras.optimizers.Adam(learning_rate=0.0001),
    g_optimizer=keras.optimizers.Adam(learning_rate=0.0001),
    loss_fn=keras.losses.BinaryCrossentropy(from_logits=True),
)
gan.fit(dataset, epochs=2, callbacks=[Monitor(num_img=10)])
