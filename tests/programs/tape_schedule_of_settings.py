# expect: HVD101 HVD301 HVD601 HVD701 HVD801 HVD803 HVD804
"""a schedule of the program's own from settings, rows of slice objects, and a weight of the loss by the rows seen"""

import numpy as np
import tensorflow as tf

settings = {"rows": 64, "batch": 16, "epochs": 2, "warm_epochs": 1}
rng = np.random.RandomState(0)
x = rng.normal(size=(settings["rows"], 6)).astype("float32")
y = (x @ rng.normal(size=(6, 1))).astype("float32")
per_epoch = settings["rows"] // settings["batch"]


class WarmUp(tf.keras.optimizers.schedules.LearningRateSchedule):
    def __init__(self, base, warm, total):
        self.base, self.warm, self.total = base, float(warm), float(total)

    def __call__(self, step):
        step = tf.cast(step, tf.float32)
        decay = self.base * (1 - (step - self.warm) / (self.total - self.warm))
        return tf.where(step < self.warm, self.base * step / self.warm, decay)


class Trainer:
    def __init__(self):
        self.model = tf.keras.Sequential([tf.keras.layers.Dense(8, activation="relu"), tf.keras.layers.Dense(1)])
        schedule = WarmUp(0.05, settings["warm_epochs"] * per_epoch, settings["epochs"] * per_epoch)
        self.optimizer = tf.keras.optimizers.SGD(schedule)
        self.seen = 0

    def step(self, a, b):
        weight = 0.5 + 0.5 * self.seen / (settings["rows"] * settings["epochs"])
        with tf.GradientTape() as tape:
            loss = weight * tf.reduce_mean(tf.square(self.model(a) - b))
        gradients = tape.gradient(loss, self.model.trainable_variables)
        self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables))
        self.seen += int(a.shape[0])
        return float(loss)


trainer = Trainer()
for epoch in range(settings["epochs"]):
    for start in range(0, settings["rows"], settings["batch"]):
        part = slice(start, start + settings["batch"])
        loss = trainer.step(x[part], y[part])
        if trainer.seen % 32 == 0:
            print(f"{trainer.seen} rows: loss {loss:.4f}")
