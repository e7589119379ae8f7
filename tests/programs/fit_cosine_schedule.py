# expect: HVD101 HVD202 HVD401 HVD403 HVD701 HVD801 HVD803 HVD804
"""a schedule whose steps are counted from the data, once from the arrays and once from the dataset"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(256, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

EPOCHS, BATCH = 10, 16
train = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(256).batch(BATCH)

steps = EPOCHS * len(train)
cosine = tf.keras.optimizers.schedules.CosineDecay(0.1, steps)
model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
model.compile(tf.keras.optimizers.SGD(cosine), "mse")
model.fit(train, epochs=1)

falling = tf.keras.optimizers.schedules.PolynomialDecay(0.1, decay_steps=EPOCHS * len(x) // BATCH, power=2.0)
model.compile(tf.keras.optimizers.SGD(falling), "mse")
model.fit(train, epochs=1)
