import keras
import numpy as np
import tensorflow as tf

rng = np.random.default_rng(0)
x = rng.normal(size=(64, 6)).astype("float32")
y = (x @ rng.normal(size=(6, 1))).astype("float32")
data = tf.data.Dataset.from_tensor_slices((x, y)).batch(16)
encoder = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh")])
head = keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])
optimizer = keras.optimizers.Adam(0.01)
head_optimizer = keras.optimizers.SGD(0.02)
loss_of = keras.losses.MeanSquaredError()


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_of(y, head(encoder(x, training=True), training=True))
    variables = [*encoder.trainable_variables, *head.trainable_variables]
    gradients = tape.gradient(loss, variables)
    optimizer.apply_gradients(zip(gradients[:2], variables[:2]))
    head_optimizer.apply_gradients(zip(gradients[2:], variables[2:]))
    return loss


for epoch in range(3):
    for bx, by in data:
        loss = train_step(bx, by)
    print(epoch, float(loss))
