"""A schedule class of the program around one of Keras'."""
import keras
import numpy as np
from keras import ops

keras.utils.set_random_seed(7)


class WarmUp(keras.optimizers.schedules.LearningRateSchedule):
    def __init__(self, after, steps):
        self.after, self.steps = after, steps

    def __call__(self, step):
        step = ops.cast(step, "float32")
        return ops.where(step < self.steps, step / self.steps * self.after(0), self.after(step - self.steps))


x = np.random.rand(40, 4).astype("float32")
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(5, activation="gelu"), keras.layers.BatchNormalization(), keras.layers.Dense(1)])
model.compile(keras.optimizers.AdamW(WarmUp(keras.optimizers.schedules.CosineDecay(0.02, 12), 6)), "mse")
history = model.fit(x, x[:, 1], batch_size=11, epochs=5, verbose=0)
print([round(value, 5) for value in history.history["loss"]])
