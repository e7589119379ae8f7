"""A variational autoencoder: noise in a call, `add_loss`, augmentation layers, images and callbacks that change the rate."""
import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(14)


class Sampling(layers.Layer):
    def call(self, inputs):
        mean, log_var = inputs
        return mean + tf.exp(0.5 * log_var) * tf.random.normal(tf.shape(mean))


images = np.random.default_rng(0).random((20, 8, 8, 1)).astype("float32")
inputs = keras.Input((8, 8, 1))
h = layers.RandomFlip("horizontal", seed=1)(inputs)
h = layers.Flatten()(layers.Conv2D(4, 3, strides=2, activation="relu")(h))
mean, log_var = layers.Dense(2)(h), layers.Dense(2)(h)
z = Sampling()([mean, log_var])
out = layers.Reshape((8, 8, 1))(layers.Dense(64, activation="sigmoid")(z))
model = keras.Model(inputs, [out, mean, log_var])


class Vae(keras.Model):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def call(self, x, training=None):
        return self.inner(x, training=training)

    def train_step(self, x):
        with tf.GradientTape() as tape:
            out, mean, log_var = self(x, training=True)
            fit = tf.reduce_mean(tf.reduce_sum(keras.losses.binary_crossentropy(x, out), (1, 2)))
            kl = -0.5 * tf.reduce_mean(tf.reduce_sum(1 + log_var - mean**2 - tf.exp(log_var), 1))
            loss = fit + kl
        self.optimizer.apply_gradients(zip(tape.gradient(loss, self.trainable_weights), self.trainable_weights))
        return {"loss": loss, "kl": kl}


vae = Vae(model)
vae.compile(optimizer=keras.optimizers.Adam(0.01))
vae.fit(images, epochs=3, batch_size=8, verbose=0, callbacks=[keras.callbacks.ReduceLROnPlateau(monitor="loss", patience=0, factor=0.5), keras.callbacks.LearningRateScheduler(lambda e, r: r * 0.9)])
