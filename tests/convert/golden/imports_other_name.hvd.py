import tensorflow as flow
import horovod.tensorflow.keras as horovod_tf

# Horovod, added by jupyter hvd: one process per rank, each with a GPU of its own
assert getattr(flow.keras, '__version__', '2') < '3', 'Horovod does not average gradients in Keras 3: install tf-keras and set TF_USE_LEGACY_KERAS=1'
horovod_tf.init()
gpus = flow.config.list_physical_devices('GPU')
for gpu in gpus:
    flow.config.experimental.set_memory_growth(gpu, True)
if gpus:
    flow.config.set_visible_devices(gpus[horovod_tf.local_rank()], 'GPU')


def hvd_share(rows, batch_size=32):
    # This rank's rows, every size-th one. Rows that would give some ranks one batch more are left out.
    count = len(rows)
    if count // horovod_tf.size() % batch_size == 0:
        count -= count % horovod_tf.size()
    return rows[horovod_tf.rank():count:horovod_tf.size()]

tf = 'not what it seems'
hvd = 3
x, y = load()
model = flow.keras.Sequential([flow.keras.layers.Dense(1)])
model.compile(horovod_tf.DistributedOptimizer(flow.keras.optimizers.Adam(learning_rate=0.001 * horovod_tf.size())), loss='mse')
model.fit(hvd_share(x), hvd_share(y), callbacks=[horovod_tf.callbacks.BroadcastGlobalVariablesCallback(0)], verbose=1 if horovod_tf.rank() == 0 else 0)
