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
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
opt = tf.keras.optimizers.Adam(0.01 * hvd.size())
dataset = tf.data.Dataset.from_tensor_slices((x, y)).shard(hvd.size(), hvd.rank()).shuffle(1000).batch(32).apply(hvd_equal_steps)

for images, labels in dataset:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(labels - model(images)))
        grads = tf.nest.map_structure(lambda gradient: gradient if gradient is None else hvd.allreduce(gradient), tape.gradient(loss, model.trainable_variables))
    opt.apply_gradients(zip(grads, model.trainable_variables))
    if not hasattr(opt, 'hvd_broadcast_done'):
        hvd.broadcast_variables(model.variables, root_rank=0)
        hvd.broadcast_variables(opt.variables(), root_rank=0)
        opt.hvd_broadcast_done = True
