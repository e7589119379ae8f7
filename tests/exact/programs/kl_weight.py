"""A VAE whose KL weight is a Keras schedule, and noise whose size falls with `s / total`."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(18)
L = tf.keras.layers
data = tf.data.Dataset.from_tensor_slices(np.random.rand(29, 6).astype("float32")).shuffle(29).batch(7)
encoder = tf.keras.Sequential([L.Input((6,)), L.Dense(8, activation="relu"), L.Dense(4)])
decoder = tf.keras.Sequential([L.Input((2,)), L.Dense(8, activation="relu"), L.Dense(6, activation="sigmoid")])
weight = tf.keras.optimizers.schedules.PolynomialDecay(0.0, 10, 1.0)
optimizer = tf.keras.optimizers.Adam(0.01)
variables = encoder.trainable_variables + decoder.trainable_variables
epochs, s = 3, 0
total = epochs * len(data)
for epoch in range(epochs):
    for x in data:
        with tf.GradientTape() as tape:
            mean, logvar = tf.split(encoder(x + 0.01 * (1 - s / total) * tf.random.normal(tf.shape(x))), 2, 1)
            z = mean + tf.exp(0.5 * logvar) * tf.random.normal(tf.shape(mean))
            kl = -0.5 * tf.reduce_sum(1 + logvar - mean**2 - tf.exp(logvar), 1)
            loss = tf.reduce_mean(tf.keras.losses.binary_crossentropy(x, decoder(z)) + weight(s) * kl)
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        s += 1
    print(epoch, f"{float(loss):.5f} {float(weight(s)):.3f}")
