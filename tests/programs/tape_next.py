# expect: HVD101 HVD301 HVD601 HVD701 HVD801 HVD803 HVD804
"""batches drawn with `next` in a loop over a count of steps"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

train = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(200, seed=3).batch(20)
model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.Adam(1e-2)


@tf.function
def train_step(features, labels):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(labels - model(features)))
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


steps_per_epoch = len(x) // 20
for epoch in range(2):
    batches = iter(train)
    for step in range(1, steps_per_epoch + 1):
        features, labels = next(batches)
        loss = train_step(features, labels)
        if step % 5 == 0:
            print(f"epoch {epoch} step {step}: {float(loss):.4f}")
