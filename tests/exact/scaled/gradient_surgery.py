"""PCGrad: the gradients of two tasks are projected where they conflict, and their sum is applied, in a loop over batches."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(25)
x = np.random.normal(size=(48, 4)).astype("float32")
one, two = x.sum(1, keepdims=True), x.prod(1, keepdims=True)
data = tf.data.Dataset.from_tensor_slices((x, one, two)).shuffle(48, seed=3).batch(8)
model = tf.keras.Sequential([tf.keras.Input((4,)), tf.keras.layers.Dense(8, activation="tanh"), tf.keras.layers.Dense(2)])
optimizer = tf.keras.optimizers.SGD(0.02, momentum=0.9)


def projected(gradient, other):
    flat, along = tf.reshape(gradient, [-1]), tf.reshape(other, [-1])
    inner = tf.minimum(tf.tensordot(flat, along, 1), 0.0)
    return gradient - inner / (tf.reduce_sum(along**2) + 1e-12) * other


for epoch in range(3):
    for a, b, c in data:
        with tf.GradientTape(persistent=True) as tape:
            found = model(a, training=True)
            losses = [tf.reduce_mean((found[:, :1] - b) ** 2), tf.reduce_mean((found[:, 1:] - c) ** 2)]
        gradients = [tape.gradient(loss, model.trainable_variables) for loss in losses]
        joined = [projected(f, g) + projected(g, f) for f, g in zip(*gradients)]
        optimizer.apply_gradients(zip(joined, model.trainable_variables))
    print(epoch, [round(float(loss), 6) for loss in losses])
