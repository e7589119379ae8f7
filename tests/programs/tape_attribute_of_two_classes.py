# expect: HVD101 HVD301 HVD701 HVD801 HVD803
"""a trainer and an evaluator that both keep their data as `self.data`: the test set stays whole"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(240, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
opt = tf.keras.optimizers.Adam(0.01)
loss_fn = tf.keras.losses.BinaryCrossentropy(from_logits=True)


class Trainer:
    def __init__(self, data):
        self.data = data

    def epoch(self):
        for bx, by in self.data:
            with tf.GradientTape() as tape:
                loss = loss_fn(by, model(bx))
            grads = tape.gradient(loss, model.trainable_variables)
            opt.apply_gradients(zip(grads, model.trainable_variables))


class Evaluator:
    def __init__(self, data):
        self.data = data

    def accuracy(self):
        right = seen = 0
        for bx, by in self.data:
            right += int(np.sum((model(bx).numpy() > 0) == by.numpy()))
            seen += len(by)
        assert seen == 40, f"{seen} of 40 test examples"
        return right / seen


trainer = Trainer(tf.data.Dataset.from_tensor_slices((x[:200], y[:200])).shuffle(500).batch(16))
evaluator = Evaluator(tf.data.Dataset.from_tensor_slices((x[200:], y[200:])).batch(8))
for _ in range(2):
    trainer.epoch()
    print(evaluator.accuracy())
