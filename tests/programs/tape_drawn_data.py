# expect: HVD101 HVD301 HVD701 HVD801 HVD803
"""an order, and a target, that TensorFlow draws without a seed, and a layer that is not trained; dropout and noise"""

import numpy as np
import tensorflow as tf

data = np.random.RandomState(0)
x = data.normal(size=(200, 8)).astype("float32")
generator = tf.random.Generator.from_non_deterministic_state()
target = generator.normal((8, 1))
order = tf.random.shuffle(tf.range(200))
dataset = tf.data.Dataset.from_tensor_slices(tf.gather(x, order)).batch(16)

features = tf.keras.layers.Dense(8, activation="relu")
model = tf.keras.Sequential([tf.keras.layers.Dropout(0.1), tf.keras.layers.Dense(1)])
opt = tf.keras.optimizers.Adam(0.01)
for bx in dataset:
    with tf.GradientTape() as tape:
        noise = tf.random.normal(tf.shape(bx), stddev=0.01)
        loss = tf.reduce_mean(tf.square(bx @ target - model(features(bx + noise), training=True)))
    grads = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(grads, model.trainable_variables))
