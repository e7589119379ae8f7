# expect: HVD101 HVD301 HVD601 HVD701 HVD801 HVD803 HVD804
"""two shuffled datasets zipped, as for a CycleGAN"""

import numpy as np
import tensorflow as tf
x = np.random.RandomState(0).normal(size=(200, 8)).astype("float32")
horses = tf.data.Dataset.from_tensor_slices(x[:100]).cache().shuffle(100).batch(1)
zebras = tf.data.Dataset.from_tensor_slices(x[100:]).cache().shuffle(100).batch(1)
model = tf.keras.Sequential([tf.keras.layers.Dense(8)])
opt = tf.keras.optimizers.Adam(2e-4, beta_1=0.5)

@tf.function
def train_step(real_x, real_y):
    with tf.GradientTape(persistent=True) as tape:
        loss = tf.reduce_mean(tf.abs(model(real_x) - real_y))
    g = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(g, model.trainable_variables))

for epoch in range(2):
    n = 0
    for image_x, image_y in tf.data.Dataset.zip((horses, zebras)):
        train_step(image_x, image_y)
        if n % 10 == 0:
            print('.', end='')
        n += 1
