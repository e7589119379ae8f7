"""A batch size of a class of settings, and one of an object."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(3)


class Settings:
    BATCH = 5
    RATE = 0.03


class Trainer:
    def __init__(self, batch_size):
        self.batch_size = batch_size
        self.optimizer = tf.keras.optimizers.RMSprop(Settings.RATE)
        self.model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(3, activation="relu"), tf.keras.layers.Dense(1)])

    def train(self, x, y):
        data = tf.data.Dataset.from_tensor_slices((x, y)).batch(self.batch_size)
        for a, b in data:
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((self.model(a)[:, 0] - b) ** 2)
            gradients = tape.gradient(loss, self.model.trainable_variables)
            self.optimizer.apply_gradients(zip(gradients, self.model.trainable_variables))
        return float(loss)


x = np.random.rand(30, 2).astype("float32")
trainer = Trainer(batch_size=Settings.BATCH)
print([round(trainer.train(x, x.sum(1)), 6) for _ in range(3)])
