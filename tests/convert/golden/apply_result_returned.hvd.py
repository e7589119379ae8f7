import tensorflow as tf
import horovod.tensorflow as hvd
import jupyter_hvd.runtime as jhvd
jhvd.start()  # Horovod, added by jupyter hvd: one process per rank, each with a GPU of its own

x, y = load()
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
opt = tf.keras.optimizers.Adam(0.01 * hvd.size())
dataset = tf.data.Dataset.from_tensor_slices((x, y)).shard(hvd.size(), hvd.rank()).shuffle(1000).batch(32).apply(jhvd.equal_steps)


@tf.function
def step(images, labels):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(labels - model(images)))
    tape = jhvd.DistributedGradientTape(tape)
    grads = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(grads, model.trainable_variables))
    return loss


def run(images, labels):
    hvd_result = step(images, labels)
    jhvd.broadcast_once(opt, model)
    return hvd_result


for images, labels in dataset:
    run(images, labels)
