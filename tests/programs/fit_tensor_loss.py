# expect: HVD101 HVD202 HVD301 HVD401 HVD601 HVD701 HVD801 HVD803
"""a loss written in the tensor language: `TensorLoss` in `fit`, and the same function as an op in a loop of one's own"""

import numpy as np
import tensorflow as tf

from jupyter_hvd.tensor import tensor
from jupyter_hvd.tensor.keras import TensorLoss


@tensor
def smooth(prediction, target):
    n, m = prediction.shape
    misfit = sum((prediction[i, j] - target[i, j]) ** 2 for i in range(n) for j in range(m))
    bends = sum((prediction[i, j + 1] - prediction[i, j]) ** 2 for i in range(n) for j in range(m - 1))
    return (misfit + 0.1 * bends) / n


rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = np.cumsum(x @ rng.normal(size=(8, 4)), axis=1).astype("float32")

model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="tanh"), tf.keras.layers.Dense(4)])
model.compile(optimizer=tf.keras.optimizers.SGD(0.01), loss=TensorLoss(smooth, wrt="prediction"))
model.fit(x, y, batch_size=10, epochs=2, verbose=0)

optimizer = tf.keras.optimizers.SGD(0.001)
for bx, by in tf.data.Dataset.from_tensor_slices((x, y)).batch(10):
    with tf.GradientTape() as tape:
        loss = smooth.tf(model(bx, training=True), by)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
print("trained")
