"""SimCLR: two noisy views through one encoder, together in one call, and a loss over all pairs of the batch."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(22)
L = tf.keras.layers
x = np.random.default_rng(0).normal(size=(30, 6)).astype("float32")
encoder = tf.keras.Sequential([L.Input((6,)), L.GaussianDropout(0.2), L.Dense(12, use_bias=False), L.BatchNormalization(), L.ReLU(), L.Dense(4), L.UnitNormalization()])
optimizer = tf.keras.optimizers.Lion(0.002)


@tf.function
def step(rows):
    with tf.GradientTape() as tape:
        z = encoder(tf.concat([rows, rows + tf.random.normal(tf.shape(rows), stddev=0.1)], 0), training=True)
        n = tf.shape(rows)[0]
        similar = tf.matmul(z, z, transpose_b=True) / 0.5 - 1e9 * tf.eye(2 * n)
        labels = tf.concat([tf.range(n) + n, tf.range(n)], 0)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, similar))
    optimizer.apply_gradients(zip(tape.gradient(loss, encoder.trainable_variables), encoder.trainable_variables))
    return loss


for epoch in range(2):
    for rows in tf.data.Dataset.from_tensor_slices(x).shuffle(30).batch(7):
        loss = step(rows)
    print(epoch, f"{float(loss):.5f}")
