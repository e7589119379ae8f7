# expect: HVD101 HVD301 HVD601 HVD701 HVD801 HVD803 HVD804
"""a loop that ends by a flag, set when the loss is small"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
opt = tf.keras.optimizers.Adam(0.01)
batches = iter(tf.data.Dataset.from_tensor_slices((x, y)).shuffle(200).repeat().batch(10))

done = False
turns = 0
while not done:
    bx, by = next(batches)
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(by - model(bx, training=True)))
    gradients = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(gradients, model.trainable_variables))
    turns += 1
    if loss < 0.2 or turns == 60:
        done = True
print(turns > 0)
