"""Momentum contrast: a queue of keys and an encoder that follows by an average."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(3)


def encoder():
    return tf.keras.Sequential([tf.keras.layers.Input((6,)), tf.keras.layers.Dense(8, activation="relu"), tf.keras.layers.Dense(4)])


query, key = encoder(), encoder()
key.set_weights(query.get_weights())
queue = tf.Variable(tf.math.l2_normalize(tf.random.normal([24, 4]), 1), trainable=False)
optimizer = tf.keras.optimizers.SGD(0.1, momentum=0.9)
x = np.random.default_rng(0).normal(size=(32, 6)).astype("float32")


@tf.function
def step(batch):
    one, two = batch + 0.1 * tf.random.normal(tf.shape(batch)), batch + 0.1 * tf.random.normal(tf.shape(batch))
    k = tf.stop_gradient(tf.math.l2_normalize(key(two), 1))
    with tf.GradientTape() as tape:
        q = tf.math.l2_normalize(query(one), 1)
        positive = tf.reduce_sum(q * k, 1, keepdims=True)
        logits = tf.concat([positive, tf.matmul(q, queue, transpose_b=True)], 1) / 0.2
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(tf.zeros(tf.shape(q)[0], tf.int32), logits))
    optimizer.apply_gradients(zip(tape.gradient(loss, query.trainable_variables), query.trainable_variables))
    for a, b in zip(key.trainable_variables, query.trainable_variables):
        a.assign(0.9 * a + 0.1 * b)
    queue.assign(tf.concat([queue[tf.shape(k)[0]:], k], 0))
    return loss


for epoch in range(2):
    for i in range(0, 32, 8):
        loss = step(x[i : i + 8])
    print(f"{float(loss):.5f} {float(tf.reduce_sum(queue)):.5f}")
