# kind: the same data on all ranks
# original: loop
import keras
import numpy as np
import tensorflow as tf

strategy = tf.distribute.MultiWorkerMirroredStrategy()
rng = np.random.default_rng(0)
x = rng.normal(size=(64, 6)).astype("float32")
y = (x @ rng.normal(size=(6, 1))).astype("float32")
data = tf.data.Dataset.from_tensor_slices((x, y)).batch(16)
with strategy.scope():
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
    optimizer = keras.optimizers.Adam(0.01)
    optimizer.build(model.trainable_variables)
data = strategy.distribute_datasets_from_function(lambda _: data.unbatch().batch(8))  # fault


@tf.function
def train_step(batch):
    def step(x, y):
        with tf.GradientTape() as tape:
            losses = tf.reduce_sum((model(x, training=True) - y) ** 2, 1)
            loss = tf.nn.compute_average_loss(losses, global_batch_size=16)
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables))
        return loss

    return strategy.reduce(tf.distribute.ReduceOp.SUM, strategy.run(step, args=batch), axis=None)


for epoch in range(3):
    for batch in data:
        loss = train_step(batch)
    print(epoch, float(loss))
