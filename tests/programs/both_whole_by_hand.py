# expect: HVD101 HVD202 HVD301 HVD401 HVD601 HVD701 HVD801 HVD803
"""a step by hand on all the data, as one process takes it, and then `fit`"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")


class Line(tf.Module):
    def __init__(self):
        self.w = tf.Variable(tf.random.normal((8, 1)))
        self.b = tf.Variable(0.0)

    def __call__(self, inputs):
        return inputs @ self.w + self.b


def train(model, x, y, rate):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(y - model(x)))
    dw, db = tape.gradient(loss, [model.w, model.b])
    model.w.assign_sub(rate * dw)
    model.b.assign_sub(rate * db)
    return loss


line = Line()
for epoch in range(10):
    loss = train(line, x, y, rate=0.1)
    print(epoch, float(loss))

model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
model.compile("adam", loss="mse")
model.fit(x, y, batch_size=20, verbose=0)
print(float(model.evaluate(x, y, verbose=0)))
