"""Callbacks of cyclic rates: a triangle by steps (CLR), and cosine restarts whose cycles become longer (SGDR)."""
import keras
import numpy as np

keras.utils.set_random_seed(28)


class CyclicLR(keras.callbacks.Callback):
    def __init__(self, base_lr=0.005, max_lr=0.03, step_size=8):
        super().__init__()
        self.base_lr, self.max_lr, self.step_size, self.iteration = base_lr, max_lr, step_size, 0

    def clr(self):
        cycle = np.floor(1 + self.iteration / (2 * self.step_size))
        place = np.abs(self.iteration / self.step_size - 2 * cycle + 1)
        return self.base_lr + (self.max_lr - self.base_lr) * max(0, 1 - place)

    def on_train_begin(self, logs=None):
        self.model.optimizer.learning_rate = self.clr()

    def on_train_batch_end(self, batch, logs=None):
        self.iteration += 1
        self.model.optimizer.learning_rate = self.clr()


class SGDR(keras.callbacks.Callback):
    def __init__(self, min_lr, max_lr, steps_per_epoch, cycle_length=1, factor=2):
        super().__init__()
        self.min_lr, self.max_lr, self.steps_per_epoch = min_lr, max_lr, steps_per_epoch
        self.cycle_length, self.factor, self.since_restart, self.restart = cycle_length, factor, 0, cycle_length

    def on_train_batch_begin(self, batch, logs=None):
        fraction = self.since_restart / (self.steps_per_epoch * self.cycle_length)
        self.model.optimizer.learning_rate = self.min_lr + 0.5 * (self.max_lr - self.min_lr) * (1 + np.cos(fraction * np.pi))
        self.since_restart += 1

    def on_epoch_end(self, epoch, logs=None):
        if epoch + 1 == self.restart:
            self.since_restart = 0
            self.cycle_length = int(self.cycle_length * self.factor)
            self.restart += self.cycle_length


BATCH = 6
x = np.random.rand(48, 3).astype("float32")
for callback in (CyclicLR(), SGDR(0.002, 0.03, len(x) // BATCH)):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(6, activation="tanh"), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(0.01), "mse")
    history = model.fit(x, x[:, 0], batch_size=BATCH, epochs=4, callbacks=[callback], verbose=0)
    print(history.history["loss"], f"{float(model.optimizer.learning_rate):.6f}")
