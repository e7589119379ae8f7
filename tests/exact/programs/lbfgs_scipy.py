"""L-BFGS by SciPy: an optimizer outside, which sees loss and gradient of all rows."""
import numpy as np
import scipy.optimize
import tensorflow as tf

tf.random.set_seed(1)
rng = np.random.default_rng(1)
x = tf.constant(rng.normal(size=(31, 4)), tf.float32)
y = tf.constant(rng.normal(size=(31, 1)), tf.float32)
model = tf.keras.Sequential([tf.keras.layers.Input((4,)), tf.keras.layers.Dense(5, activation="tanh"), tf.keras.layers.Dense(1)])
sizes = [int(np.prod(v.shape)) for v in model.trainable_variables]


def assign(flat):
    for v, part in zip(model.trainable_variables, np.split(flat, np.cumsum(sizes)[:-1])):
        v.assign(part.reshape(v.shape))


@tf.function
def loss_and_gradients():
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(model(x) - y))
    return loss, tape.gradient(loss, model.trainable_variables)


def f(flat):
    assign(flat)
    loss, gradients = loss_and_gradients()
    return float(loss), np.concatenate([g.numpy().ravel() for g in gradients]).astype("float64")


start = np.concatenate([v.numpy().ravel() for v in model.trainable_variables])
found = scipy.optimize.minimize(f, start, jac=True, method="L-BFGS-B", options={"maxiter": 6})
print(round(found.fun, 5), found.nit)
