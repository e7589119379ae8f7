# expect: HVD101 HVD301 HVD601 HVD701 HVD801 HVD803
"""an optimizer class of the program's own, in a compiled step"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

class Momentum:
    def __init__(self, rate, decay=0.9):
        self.rate = rate
        self.decay = decay
        self.velocities = []

    def build(self, variables):
        self.velocities = [tf.Variable(tf.zeros_like(v), trainable=False) for v in variables]

    def apply_gradients(self, gradients, variables):
        for gradient, variable, velocity in zip(gradients, variables, self.velocities):
            velocity.assign(self.decay * velocity + gradient)
            variable.assign_sub(self.rate * velocity)


model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu", input_shape=(8,)), tf.keras.layers.Dense(1)])
optimizer = Momentum(0.02)
optimizer.build(model.trainable_variables)
ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(200).batch(10)


@tf.function
def train_step(bx, by):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(by - model(bx, training=True)))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(gradients, model.trainable_variables)
    return loss


for bx, by in ds:
    loss = train_step(bx, by)
print(float(loss))
