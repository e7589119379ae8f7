import tensorflow as tf
import horovod.tensorflow as hvd
import jupyter_hvd.runtime as jhvd
jhvd.start()  # Horovod, added by jupyter hvd: one process per rank, each with a GPU of its own

x, y = load()
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
opt = tf.keras.optimizers.Adam(0.01 * hvd.size())
dataset = tf.data.Dataset.from_tensor_slices((x, y)).shard(hvd.size(), hvd.rank()).shuffle(1000).batch(32).apply(jhvd.equal_steps)


def grad(model, inputs, targets):
    with tf.GradientTape() as tape:
        loss_value = tf.reduce_mean(tf.square(targets - model(inputs)))
    tape = jhvd.DistributedGradientTape(tape)
    return loss_value, tape.gradient(loss_value, model.trainable_variables)


for images, labels in dataset:
    loss_value, grads = grad(model, images, labels)
    opt.apply_gradients(zip(grads, model.trainable_variables))
    jhvd.broadcast_once(opt, model)
