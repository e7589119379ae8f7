# expect: HVD101 HVD301 HVD601 HVD701 HVD801 HVD803 HVD804
"""batches drawn with `next` from an endless dataset until a counter of steps"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

batches = iter(tf.data.Dataset.from_tensor_slices((x, y)).repeat().shuffle(200, seed=3).batch(20))
model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.Adam(1e-2)


@tf.function
def train_step(features, labels):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(labels - model(features)))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


total = 40
step = 0
while step < total:
    features, labels = next(batches)
    loss = train_step(features, labels)
    if step % 10 == 0:
        print(f"step {step}: {float(loss):.4f}")
    step += 1
