import tensorflow as tf
import horovod.tensorflow as hvd
import jupyter_hvd.runtime as jhvd
jhvd.start()  # Horovod, added by jupyter hvd: one process per rank, each with a GPU of its own

x, y = load()
a = tf.keras.Sequential([tf.keras.layers.Dense(1)])
b = tf.keras.Sequential([tf.keras.layers.Dense(1)])
opt_a, opt_b = tf.keras.optimizers.Adam(1e-3 * hvd.size()), tf.keras.optimizers.RMSprop(learning_rate=1e-4 * hvd.size())
dataset = tf.data.Dataset.from_tensor_slices((x, y)).shard(hvd.size(), hvd.rank()).shuffle(1000).batch(32).apply(jhvd.equal_steps)


@tf.function
def step(images, labels):
    with tf.GradientTape() as tape_a, tf.GradientTape() as tape_b:
        loss_a = tf.reduce_mean(tf.square(labels - a(images)))
        loss_b = tf.reduce_mean(tf.square(labels - b(images)))
    tape_a = jhvd.DistributedGradientTape(tape_a)
    tape_b = jhvd.DistributedGradientTape(tape_b)
    opt_a.apply_gradients(zip(tape_a.gradient(loss_a, a.trainable_variables), a.trainable_variables))
    opt_b.apply_gradients(zip(tape_b.gradient(loss_b, b.trainable_variables), b.trainable_variables))


for images, labels in dataset:
    step(images, labels)
    jhvd.broadcast_once(opt_a, a)
    jhvd.broadcast_once(opt_b, b)
