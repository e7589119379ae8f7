# expect: HVD101 HVD301 HVD601 HVD701 HVD801 HVD803
"""a trainer that holds model and optimizer on self"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

loss_fn = tf.keras.losses.BinaryCrossentropy(from_logits=True)


class Trainer:
    def __init__(self, rate):
        self.model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
        self.opt = tf.keras.optimizers.Adam(rate)

    @tf.function
    def step(self, bx, by):
        with tf.GradientTape() as tape:
            loss = loss_fn(by, self.model(bx))
        grads = tape.gradient(loss, self.model.trainable_variables)
        self.opt.apply_gradients(zip(grads, self.model.trainable_variables))
        return loss

    def fit(self, data, epochs):
        for epoch in range(epochs):
            for bx, by in data:
                loss = self.step(bx, by)
            print(epoch, float(loss))


ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(500).batch(16)
trainer = Trainer(0.01)
trainer.fit(ds, 2)
