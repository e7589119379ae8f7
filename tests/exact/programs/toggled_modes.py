"""Models with switches, which are turned in the course of training: each row by itself at first, later with the whole batch."""
import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

keras.utils.set_random_seed(45)


class Critic(keras.Model):
    def __init__(self):
        super().__init__()
        self.hidden, self.out = layers.Dense(5, activation="tanh"), layers.Dense(1)
        self.by_batch = False
        self.pooling = "none"

    def call(self, x):
        h = self.hidden(x)
        if self.by_batch:
            h = ops.concatenate([h, ops.ones_like(h[:, :1]) * ops.mean(ops.std(h, 0))], 1)
        else:
            h = ops.concatenate([h, ops.zeros_like(h[:, :1])], 1)
        return self.out(h - ops.mean(h, 0) if self.pooling == "mean" else h)


x = np.random.rand(21, 3).astype("float32")
model = Critic()
for switch in ("none", "by_batch", "mean"):
    model.by_batch = model.by_batch or switch == "by_batch"
    model.pooling = switch if switch == "mean" else "none"
    model.compile(keras.optimizers.SGD(0.1), "mse")
    print(switch, model.fit(x, x.prod(1), batch_size=7, epochs=1, verbose=0).history["loss"])
model.by_batch, model.pooling, optimizer = False, "none", keras.optimizers.SGD(0.1)
for step in range(4):
    model.by_batch = step > 1
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(x[step:]) ** 2)
    optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    print(step, f"{float(loss):.5f}")
