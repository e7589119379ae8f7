# kind: other data on a rank
# original: loop
import horovod.tensorflow as hvd
import keras
import numpy as np
import tensorflow as tf

hvd.init()
rng = np.random.default_rng(0)
x = rng.normal(size=(64, 6)).astype("float32")
y = (x @ rng.normal(size=(6, 1))).astype("float32")
data = tf.data.Dataset.from_tensor_slices((x[:32], y[:32])).repeat(2).shard(hvd.size(), hvd.rank()).batch(16 // hvd.size())  # fault
model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
optimizer = keras.optimizers.Adam(0.01)
loss_of = keras.losses.MeanSquaredError()


@tf.function
def train_step(x, y):
    with tf.GradientTape() as tape:
        loss = loss_of(y, model(x, training=True))
    tape = hvd.DistributedGradientTape(tape)
    gradients = tape.gradient(loss, [v.value for v in model.trainable_variables])
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss


for epoch in range(3):
    for step, (bx, by) in enumerate(data):
        loss = train_step(bx, by)
        if epoch == 0 and step == 0:
            hvd.broadcast_variables([v.value for v in model.variables], root_rank=0)
            hvd.broadcast_variables([v.value for v in optimizer.variables], root_rank=0)
    if hvd.rank() == 0:
        print(epoch, float(loss))
