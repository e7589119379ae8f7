import tensorflow as tf
import horovod.tensorflow as hvd
import jupyter_hvd.runtime as jhvd
jhvd.start()  # Horovod, added by jupyter hvd: one process per rank, each with a GPU of its own

x, y = load()
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile(jhvd.DistributedOptimizer(tf.keras.optimizers.Adam(learning_rate=0.001 * hvd.size())), loss='mse')
history = model.fit(
    jhvd.shard_rows(x),
    jhvd.shard_rows(y),
    epochs=3,
    callbacks=[jhvd.BroadcastGlobalVariablesCallback(0), jhvd.MetricAverageCallback()],
    verbose=1 if hvd.rank() == 0 else 0,
)
