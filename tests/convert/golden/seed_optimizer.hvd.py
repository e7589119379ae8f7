import tensorflow as tf

from tensorflow.keras import optimizers
import horovod.tensorflow as hvd
import jupyter_hvd.runtime as jhvd
jhvd.start()  # Horovod, added by jupyter hvd: one process per rank, each with a GPU of its own

x, y = load()
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
base = 0.01
by_keyword = tf.optimizers.Adam(learning_rate=(base / 2) * hvd.size())  # half
by_position = tf.optimizers.Adam(base * hvd.size())
from_module = optimizers.Adam(0.1 * hvd.size(), beta_1=0.5)
old_spelling = optimizers.SGD(lr=0.1 * hvd.size())
dataset = tf.data.Dataset.from_tensor_slices((x, y)).shard(hvd.size(), hvd.rank()).batch(8).apply(jhvd.equal_steps)
for opt in (by_keyword, by_position, from_module, old_spelling):
    for images, labels in dataset:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(labels - model(images)))
        tape = jhvd.DistributedGradientTape(tape)
        grads = tape.gradient(loss, model.trainable_variables)
        opt.apply_gradients(zip(grads, model.trainable_variables))
        jhvd.broadcast_once(opt, model)
