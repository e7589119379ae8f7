import tensorflow as tf
import horovod.tensorflow as hvd
import jupyter_hvd.runtime as jhvd
jhvd.start()  # Horovod, added by jupyter hvd: one process per rank, each with a GPU of its own

x, y = load()
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
opt = jhvd.DistributedOptimizer(tf.keras.optimizers.Nadam(learning_rate=0.001 * hvd.size()))
model.compile(opt, loss='mse')
model.fit(jhvd.shard_rows(x), jhvd.shard_rows(y), callbacks=[jhvd.BroadcastGlobalVariablesCallback(0)], verbose=1 if hvd.rank() == 0 else 0)
if hvd.rank() == 0:
    print(opt.learning_rate)
