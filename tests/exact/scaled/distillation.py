"""Distillation: a teacher is trained first; the student follows its softened answers and the labels in a `train_step`."""
import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(22)
x = np.random.normal(size=(64, 4)).astype("float32")
y = (x[:, 0] * x[:, 1] > 0).astype("int32")
teacher = keras.Sequential([keras.Input((4,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(2)])
teacher.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
teacher.fit(x, y, batch_size=8, epochs=2, verbose=0)


class Distiller(keras.Model):
    def __init__(self, student, teacher, temperature=3.0, alpha=0.3):
        super().__init__()
        self.student, self.teacher, self.temperature, self.alpha = student, teacher, temperature, alpha
        self.hard = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        self.soft = keras.losses.KLDivergence()

    def call(self, x, training=False):
        return self.student(x, training=training)

    def train_step(self, data):
        x, y = data
        aims = tf.nn.softmax(self.teacher(x, training=False) / self.temperature)
        with tf.GradientTape() as tape:
            found = self.student(x, training=True)
            soft = self.soft(aims, tf.nn.softmax(found / self.temperature)) * self.temperature**2
            loss = self.alpha * self.hard(y, found) + (1 - self.alpha) * soft
        variables = self.student.trainable_variables
        self.optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return {"loss": loss}


student = keras.Sequential([keras.Input((4,)), keras.layers.Dense(4, activation="relu"), keras.layers.Dense(2)])
distiller = Distiller(student, teacher)
distiller.compile(optimizer=keras.optimizers.Adam(0.01))
print(distiller.fit(x, y, batch_size=8, epochs=3, verbose=0).history["loss"])
