# expect: HVD101 HVD202 HVD301 HVD401 HVD403 HVD701 HVD801 HVD803
"""one model by fit, another by a tape"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
model.compile(optimizer="adam", loss=tf.keras.losses.BinaryCrossentropy(from_logits=True), metrics=["accuracy"])
model.fit(x, y, epochs=1, batch_size=16)
other = tf.keras.Sequential([tf.keras.layers.Dense(1)])
opt = tf.keras.optimizers.SGD(0.01)
ds = tf.data.Dataset.from_tensor_slices((x, y)).batch(16)
for bx, by in ds:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(by - other(bx)))
    grads = tape.gradient(loss, other.trainable_variables)
    opt.apply_gradients(zip(grads, other.trainable_variables))
