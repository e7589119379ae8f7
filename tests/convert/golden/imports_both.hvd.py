import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers
import horovod.tensorflow as hvd
import jupyter_hvd.runtime as jhvd
jhvd.start()  # Horovod, added by jupyter hvd: one process per rank, each with a GPU of its own

x, y = load()
model = keras.Sequential([layers.Dense(1)])
model.compile(jhvd.DistributedOptimizer(tf.keras.optimizers.Adam(learning_rate=0.001 * hvd.size())), loss='mse')
model.fit(jhvd.shard_rows(x), jhvd.shard_rows(y), callbacks=[jhvd.BroadcastGlobalVariablesCallback(0)], verbose=1 if hvd.rank() == 0 else 0)
