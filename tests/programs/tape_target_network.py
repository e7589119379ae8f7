# expect: HVD101 HVD301 HVD701 HVD801 HVD803 HVD804
"""settings in a namespace, a generator that hands batches on, and a target network that `set_weights` moves"""

from types import SimpleNamespace

import numpy as np
import tensorflow as tf

config = SimpleNamespace(batch=12, steps=24, log_every=6, tau=0.05, noise=0.01)
rng = np.random.RandomState(0)
x = rng.normal(size=(288, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")


def network():
    return tf.keras.Sequential([tf.keras.Input((8,)), tf.keras.layers.Dense(16, activation="tanh"), tf.keras.layers.Dense(1)])


def forever(data):
    while True:
        for batch in data:
            yield batch


class Trainer:
    def __init__(self, cfg):
        self.cfg = cfg
        self.model, self.target = network(), network()
        self.target.set_weights(self.model.get_weights())
        self.optimizer = tf.keras.optimizers.SGD(0.05)
        self.batches = forever(tf.data.Dataset.from_tensor_slices((x, y)).batch(cfg.batch))

    def step(self):
        features, labels = next(self.batches)
        features += self.cfg.noise * np.ones((self.cfg.batch, 8), "float32")
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(labels - self.model(features)))
        gradients = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables))
        tau = self.cfg.tau
        self.target.set_weights(
            [tau * w + (1 - tau) * t for w, t in zip(self.model.get_weights(), self.target.get_weights())]
        )
        return loss


trainer = Trainer(config)
for number in range(config.steps):
    loss = trainer.step()
    if (number + 1) % config.log_every == 0:
        print(f"{number + 1}: {float(loss):.4f} {float(tf.norm(trainer.target.get_weights()[0])):.4f}")
