# expect: HVD101 HVD301 HVD601 HVD701 HVD801
"""full-batch training, by a function of arrays and by a loop"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(198, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

w = tf.Variable(tf.zeros((8, 1)))
b = tf.Variable(0.0)


def predict(inputs):
    return tf.matmul(inputs, w) + b


def square_loss(targets, predictions):
    each = tf.square(targets - predictions)
    return tf.reduce_mean(each)


def training_step(inputs, targets):
    with tf.GradientTape() as tape:
        predictions = predict(inputs)
        loss = square_loss(targets, predictions)
    dw, db = tape.gradient(loss, [w, b])
    w.assign_sub(dw * 0.1)
    b.assign_sub(db * 0.1)
    return loss


for step in range(20):
    loss = training_step(x, y)
    print(step, float(loss))

model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
opt = tf.keras.optimizers.Adam(0.01)
entropy = tf.keras.losses.BinaryCrossentropy(from_logits=True)
for _ in range(20):
    with tf.GradientTape() as tape:
        loss = entropy(y, model(x)) + 0.01 * tf.nn.l2_loss(w)
    gradients = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(gradients, model.trainable_variables))
