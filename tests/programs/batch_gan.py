# expect: HVD101 HVD202 HVD701 HVD801 HVD803 HVD804
"""a GAN trained by train_on_batch: a discriminator, and a model of both in which that is frozen; functions of functions draw"""

import numpy as np
import tensorflow as tf

layers = tf.keras.layers


def noise(size):
    return np.random.normal(size=(size, 2))


def made_by(generator, size):
    return generator.predict(noise(size), verbose=0), np.zeros(size)


real = np.random.RandomState(0).normal(3, 1, size=(200, 4)).astype("float32")


class GAN:
    def __init__(self):
        self.generator = tf.keras.Sequential([layers.Dense(8, activation="relu"), layers.Dense(4)])
        self.discriminator = tf.keras.Sequential([layers.Dense(8, activation="relu"), layers.Dense(1)])
        self.discriminator.compile(tf.keras.optimizers.RMSprop(0.001), "mse")
        self.discriminator.trainable = False
        noise = tf.keras.Input((2,))
        self.gan = tf.keras.Model(noise, self.discriminator(self.generator(noise)))
        self.gan.compile("adam", "mse")

    def train(self, steps, batch_size):
        for step in range(steps):
            rows = np.random.randint(0, len(real), batch_size)
            self.discriminator.train_on_batch(real[rows], np.ones(batch_size))
            self.discriminator.train_on_batch(*made_by(self.generator, batch_size))
            self.gan.train_on_batch(noise(batch_size), np.ones(batch_size))


GAN().train(10, 16)
