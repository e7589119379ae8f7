# expect: HVD101 HVD301 HVD601 HVD701 HVD801 HVD803
"""a step in a function of its own, around which a clock and a list kept on `self` decide how long it goes on"""

import time

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(128, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")


class Trainer:
    def __init__(self):
        self.model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
        self.loss_fn = tf.keras.losses.BinaryCrossentropy(from_logits=True)
        self.opt = tf.keras.optimizers.SGD(learning_rate=0.05)
        self.losses = []

    def step(self, bx, by):
        with tf.GradientTape() as tape:
            loss = self.loss_fn(by, self.model(bx, training=True))
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.model.trainable_variables))
        return loss

    def run(self, data, seconds):
        began = time.time()
        while time.time() - began < seconds:
            for bx, by in data:
                loss = self.step(bx, by)
            self.losses.append(float(loss))
            if len(self.losses) > 1 and self.losses[-1] > self.losses[-2]:
                break


trainer = Trainer()
trainer.run(tf.data.Dataset.from_tensor_slices((x, y)).batch(16), seconds=30)
print(len(trainer.losses) > 0)
