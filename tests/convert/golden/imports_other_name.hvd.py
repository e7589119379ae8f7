import tensorflow as flow
import horovod.tensorflow as horovod_tf
import jupyter_hvd.runtime as jhvd
jhvd.start()  # Horovod, added by jupyter hvd: one process per rank, each with a GPU of its own

tf = 'not what it seems'
hvd = 3
x, y = load()
model = flow.keras.Sequential([flow.keras.layers.Dense(1)])
model.compile(jhvd.DistributedOptimizer(flow.keras.optimizers.Adam(learning_rate=0.001 * horovod_tf.size())), loss='mse')
model.fit(jhvd.shard_rows(x), jhvd.shard_rows(y), callbacks=[jhvd.BroadcastGlobalVariablesCallback(0)], verbose=1 if horovod_tf.rank() == 0 else 0)
