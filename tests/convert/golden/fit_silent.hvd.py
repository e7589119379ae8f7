import tensorflow as tf
import horovod.tensorflow as hvd
import jupyter_hvd.runtime as jhvd
jhvd.start()  # Horovod, added by jupyter hvd: one process per rank, each with a GPU of its own

x, y = load()
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile(jhvd.DistributedOptimizer(tf.keras.optimizers.Adam(learning_rate=0.001 * hvd.size())), loss='mse')
model.fit(jhvd.shard_rows(x, 64), jhvd.shard_rows(y, 64), 64, 3, 0, callbacks=[jhvd.BroadcastGlobalVariablesCallback(0)])
