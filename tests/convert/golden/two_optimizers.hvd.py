import tensorflow as tf
import horovod.tensorflow as hvd

# Horovod, added by jupyter hvd: one process per rank, each with a GPU of its own
assert getattr(tf.keras, '__version__', '2') < '3', 'Horovod does not average gradients in Keras 3: install tf-keras and set TF_USE_LEGACY_KERAS=1'
hvd.init()
gpus = tf.config.list_physical_devices('GPU')
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)
if gpus:
    tf.config.set_visible_devices(gpus[hvd.local_rank()], 'GPU')


def hvd_equal_steps(dataset):
    # As many batches on every rank: none may wait for one that has finished.
    steps = dataset.cardinality()
    if hvd.size() == 1 or steps == tf.data.INFINITE_CARDINALITY:
        return dataset
    if steps == tf.data.UNKNOWN_CARDINALITY:
        steps = dataset.reduce(tf.constant(0, tf.int64), lambda count, *_: count + 1)
    least = int(min(hvd.allgather([int(steps)])))
    return dataset if least == steps else dataset.take(least)

x, y = load()
a = tf.keras.Sequential([tf.keras.layers.Dense(1)])
b = tf.keras.Sequential([tf.keras.layers.Dense(1)])
opt_a, opt_b = tf.keras.optimizers.Adam(1e-3 * hvd.size()), tf.keras.optimizers.RMSprop(learning_rate=1e-4 * hvd.size())
dataset = tf.data.Dataset.from_tensor_slices((x, y)).shard(hvd.size(), hvd.rank()).shuffle(1000).batch(32).apply(hvd_equal_steps)


@tf.function
def step(images, labels):
    with tf.GradientTape() as tape_a, tf.GradientTape() as tape_b:
        loss_a = tf.reduce_mean(tf.square(labels - a(images)))
        loss_b = tf.reduce_mean(tf.square(labels - b(images)))
    tape_a = hvd.DistributedGradientTape(tape_a)
    tape_b = hvd.DistributedGradientTape(tape_b)
    opt_a.apply_gradients(zip(tape_a.gradient(loss_a, a.trainable_variables), a.trainable_variables))
    opt_b.apply_gradients(zip(tape_b.gradient(loss_b, b.trainable_variables), b.trainable_variables))


for images, labels in dataset:
    step(images, labels)
    if not hasattr(opt_a, 'hvd_broadcast_done'):
        hvd.broadcast_variables(a.variables, root_rank=0)
        hvd.broadcast_variables(opt_a.variables(), root_rank=0)
        opt_a.hvd_broadcast_done = True
    if not hasattr(opt_b, 'hvd_broadcast_done'):
        hvd.broadcast_variables(b.variables, root_rank=0)
        hvd.broadcast_variables(opt_b.variables(), root_rank=0)
        opt_b.hvd_broadcast_done = True
