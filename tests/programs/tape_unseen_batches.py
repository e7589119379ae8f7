# expect: HVD101 HVD301 HVD701 HVD802 HVD803
"""batches that an attribute holds, whose name is known when the program runs"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")


class Data:
    pass


data = Data()
setattr(data, "train", tf.data.Dataset.from_tensor_slices((x, y)).shuffle(200).batch(16))
model = tf.keras.Sequential([tf.keras.layers.Dense(8, activation="relu"), tf.keras.layers.Dense(1)])
opt = tf.keras.optimizers.Adam(0.01)
for number, (bx, by) in enumerate(getattr(data, "train")):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(by - model(bx)))
    grads = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(grads, model.trainable_variables))
