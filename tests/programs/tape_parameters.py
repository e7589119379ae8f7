# expect: HVD101 HVD301 HVD701 HVD801 HVD803
"""model and optimizer passed to the step"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

@tf.function
def step(net, optimizer, bx, by):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(by - net(bx)))
    optimizer.apply_gradients(zip(tape.gradient(loss, net.trainable_weights), net.trainable_weights))
    return loss


def train(net, optimizer, data):
    for bx, by in data:
        loss = step(net, optimizer, bx, by)
    return loss


ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(500).batch(16)
first = tf.keras.Sequential([tf.keras.layers.Dense(1)])
print(float(train(first, tf.keras.optimizers.Adamax(0.01), ds)))
