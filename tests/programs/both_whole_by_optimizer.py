# expect: HVD101 HVD202 HVD301 HVD401 HVD701 HVD801 HVD803
"""steps of an optimizer on all the data, as one process takes them, and then `fit`"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

first = tf.keras.Sequential([tf.keras.layers.Dense(1)])
optimizer = tf.keras.optimizers.Adam(0.01)


@tf.function
def step():
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(y - first(x)))
    gradients = tape.gradient(loss, first.trainable_variables)
    optimizer.apply_gradients(zip(gradients, first.trainable_variables))
    return loss


first.build((None, 8))
for epoch in range(5):
    print(epoch, float(step()))

model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
model.compile("adam", loss="mse")
model.fit(x, first.predict(x, verbose=0), batch_size=20, verbose=0)
