# expect: HVD101 HVD301 HVD601 HVD701 HVD801 HVD803
"""weights changed by hand, as in the guide on basic training loops"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

class Line(tf.Module):
    def __init__(self):
        super().__init__()
        self.w = tf.Variable(tf.random.normal((8, 1)))
        self.b = tf.Variable(0.0)

    def __call__(self, inputs):
        return inputs @ self.w + self.b


def train(model, inputs, labels, rate):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(labels - model(inputs)))
    dw, db = tape.gradient(loss, [model.w, model.b])
    model.w.assign_sub(rate * dw)
    model.b.assign_sub(rate * db)
    return loss


model = Line()
ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(200).batch(10)
for epoch in range(2):
    for bx, by in ds:
        loss = train(model, bx, by, 0.1)
    print(epoch, float(loss))
