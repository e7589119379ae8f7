# expect: HVD101 HVD104 HVD301 HVD601 HVD701 HVD801 HVD803
"""a training loop of its own under MirroredStrategy, its dataset distributed, its losses reduced"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

strategy = tf.distribute.MirroredStrategy(cross_device_ops=tf.distribute.ReductionToOneDevice())
BATCH = 16 * strategy.num_replicas_in_sync
batches = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(200).batch(BATCH)
batches = strategy.experimental_distribute_dataset(batches)

with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
    opt = tf.keras.optimizers.Adam(0.01)


def train_step(inputs):
    bx, by = inputs
    with tf.GradientTape() as tape:
        each = tf.reduce_mean(tf.square(by - model(bx, training=True)), axis=1)
        loss = tf.nn.compute_average_loss(each, global_batch_size=BATCH)
    grads = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(grads, model.trainable_variables))
    return loss


@tf.function
def distributed_step(inputs):
    losses = strategy.run(train_step, args=(inputs,))
    return strategy.reduce(tf.distribute.ReduceOp.SUM, losses, axis=None)


for epoch in range(2):
    total = 0.0
    for inputs in batches:
        total += distributed_step(inputs)
    print(epoch, float(total))
