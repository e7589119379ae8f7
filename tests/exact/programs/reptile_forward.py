"""Reptile's inner steps, a forward-mode derivative, `tf.gradients`, and a model whose call takes a derivative."""
import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(19)
rng = np.random.default_rng(0)
model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(5, activation="tanh"), keras.layers.Dense(1)])
for task in range(2):
    x = rng.normal(size=(9, 2)).astype("float32")
    y = (x * (task + 1)).sum(1, keepdims=True)
    before = model.get_weights()
    for _ in range(2):
        model.compile(keras.optimizers.SGD(0.1), "mse")
        print(f"{model.train_on_batch(x, y):.5f}")
    model.set_weights([b + 0.5 * (a - b) for a, b in zip(model.get_weights(), before)])
v = model.trainable_variables[0]
v = getattr(v, "value", v)
v = v if isinstance(v, tf.Variable) else model.trainable_variables[0]._value
with tf.autodiff.ForwardAccumulator(v, tf.ones_like(v)) as forward:
    out = model(tf.constant(x))
print(f"{float(tf.reduce_sum(forward.jvp(out))):.5f}")


@tf.function
def slopes(x):
    out = model(x)
    return tf.gradients(out, x)[0]


print(f"{float(tf.norm(slopes(tf.constant(x)))):.5f}")


class Physics(keras.Model):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def call(self, x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            u = self.inner(x)
        return u + tape.gradient(u, x)[:, :1]


physics = Physics(model)
physics(x)
optimizer = keras.optimizers.Adam(0.01)
for _ in range(2):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(physics(tf.constant(x)) ** 2)
    variables = physics.trainable_variables
    optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
    print(f"{float(loss):.5f}")
