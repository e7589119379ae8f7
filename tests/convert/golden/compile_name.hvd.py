import tensorflow as tf
import horovod.tensorflow.keras as hvd

# Horovod, added by jupyter hvd: one process per rank, each with a GPU of its own
assert getattr(tf.keras, '__version__', '2') < '3', 'Horovod does not average gradients in Keras 3: install tf-keras and set TF_USE_LEGACY_KERAS=1'
hvd.init()
gpus = tf.config.list_physical_devices('GPU')
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)
if gpus:
    tf.config.set_visible_devices(gpus[hvd.local_rank()], 'GPU')


def hvd_share(rows, batch_size=32):
    # This rank's rows, every size-th one. Rows that would give some ranks one batch more are left out.
    count = len(rows)
    if count // hvd.size() % batch_size == 0:
        count -= count % hvd.size()
    return rows[hvd.rank():count:hvd.size()]

x, y = load()
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
opt = hvd.DistributedOptimizer(tf.keras.optimizers.Nadam(learning_rate=0.001 * hvd.size()))
model.compile(opt, loss='mse')
model.fit(hvd_share(x), hvd_share(y), callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)], verbose=1 if hvd.rank() == 0 else 0)
if hvd.rank() == 0:
    print(opt.learning_rate)
