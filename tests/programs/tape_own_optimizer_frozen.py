# expect: HVD101 HVD301 HVD601 HVD701 HVD801 HVD803
"""an optimizer class of one's own, which is given the trainable variables of a model with a frozen layer"""

import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
x = rng.normal(size=(160, 3)).astype("float32")
y = (x @ np.array([[1.0], [-2.0], [0.5]])).astype("float32")
dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(10)


class Descent:
    def __init__(self, rate):
        self.rate = rate

    def apply_gradients(self, gradients, variables):
        for gradient, variable in zip(gradients, variables):
            variable.assign_sub(self.rate * gradient)


frozen = tf.keras.layers.Dense(4)
frozen.trainable = False
model = tf.keras.Sequential([frozen, tf.keras.layers.Dense(1)])
optimizer = Descent(0.05)


def train_step(images, targets):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(targets - model(images, training=True)))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(gradients, model.trainable_variables)
    return loss


for images, targets in dataset:
    train_step(images, targets)
print("done")
