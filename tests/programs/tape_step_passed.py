# expect: HVD101 HVD301 HVD601 HVD701 HVD801 HVD803 HVD804
"""One loop for training and for the test, which is passed the step to take: the test sees all its data."""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(1)
x = rng.normal(size=(256, 4)).astype("float32")
y = (x @ rng.normal(size=(4, 1))).astype("float32")
x_test, y_test = x[:64], y[:64]

train = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(256).repeat().batch(16)
test = tf.data.Dataset.from_tensor_slices((x_test, y_test)).batch(16)

model = tf.keras.Sequential([tf.keras.layers.Input((4,)), tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.Adam(1e-2)


@tf.function
def train_step(bx, by):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(by - model(bx, training=True)))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


@tf.function
def test_step(bx, by):
    return tf.reduce_mean(tf.square(by - model(bx, training=False)))


def run(step, batches, steps):
    losses = []
    for _ in range(steps):
        bx, by = next(batches)
        losses.append(float(step(bx, by)))
    return sum(losses) / len(losses)


batches = iter(train)
for epoch in range(2):
    loss = run(train_step, batches, 16)
    test_loss = run(test_step, iter(test), 4)
    print(f"epoch {epoch}: loss {loss:.4f}, test {test_loss:.4f}")
