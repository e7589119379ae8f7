"""A step object with `__call__`, a list of ready batches that is shuffled, and an epoch compiled as a whole that sums the loss."""
import random

import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(17)
x = np.random.rand(38, 3).astype("float32")
model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(5, activation="relu"), tf.keras.layers.Dense(1)])


class Step:
    def __init__(self, model, rate):
        self.model, self.optimizer, self.seen = model, tf.keras.optimizers.Adam(rate), 0

    @tf.function
    def update(self, a, b):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self.model(a)[:, 0] - b) ** 2)
        self.optimizer.apply(tape.gradient(loss, self.model.trainable_variables), self.model.trainable_variables)
        return loss

    def __call__(self, batch):
        self.seen += len(batch[0])
        return float(self.update(*batch))


step = Step(model, 0.01)
batches = [(x[i : i + 8], x[i : i + 8].prod(1)) for i in range(0, 38, 8)]
for epoch in range(2):
    random.shuffle(batches)
    print(epoch, [round(step(batch), 6) for batch in batches], step.seen)

data = tf.data.Dataset.from_tensor_slices((x, x.prod(1))).batch(8, drop_remainder=True)


@tf.function
def epoch_of(data):
    total = 0.0
    for a, b in data:
        total += step.update(a, b)
    return total


print(f"{float(epoch_of(data)):.6f}")
