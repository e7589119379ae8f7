# expect: HVD101 HVD301 HVD601 HVD701 HVD801 HVD803 HVD804
"""batches of randomly drawn rows, and a random split"""

import numpy as np
import tensorflow as tf

data = np.random.RandomState(0)
x = data.normal(size=(200, 8)).astype("float32")
y = (x @ data.normal(size=(8, 1)) > 0).astype("float32")
order = np.random.permutation(200)
x, y = x[order[40:]], y[order[40:]]

model = tf.keras.Sequential([tf.keras.layers.Dense(8, activation="relu"), tf.keras.layers.Dense(1)])
opt = tf.keras.optimizers.Adam(0.01)
for epoch in range(2):
    for step in range(10):
        rows = np.random.randint(0, len(x), 16)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(y[rows] - model(x[rows])))
        grads = tape.gradient(loss, model.trainable_variables)
        opt.apply_gradients(zip(grads, model.trainable_variables))
    print(epoch, float(loss))
