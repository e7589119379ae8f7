import tensorflow as tf
import horovod.tensorflow as hvd
import jupyter_hvd.runtime as jhvd
jhvd.start()  # Horovod, added by jupyter hvd: one process per rank, each with a GPU of its own

x, y = load()
w = tf.Variable(1.0)
b = tf.Variable(0.0)
net = {'w': tf.Variable(1.0), 'b': tf.Variable(0.0)}
opt = tf.keras.optimizers.Adam(0.01 * hvd.size())
dataset = tf.data.Dataset.from_tensor_slices((x, y)).shard(hvd.size(), hvd.rank()).shuffle(1000).batch(32).apply(jhvd.equal_steps)

for images, labels in dataset:
    with tf.GradientTape(persistent=True) as tape:
        loss = tf.reduce_mean(tf.square(labels - images * w - b))
        other = tf.reduce_mean(tf.square(labels - images * net['w'] - net['b']))
    tape = jhvd.DistributedGradientTape(tape)
    dw = tape.gradient(loss, w)
    dw2, db = tape.gradient(loss, [w, b])
    slopes = tape.gradient(other, net)
    opt.apply_gradients([(dw + dw2, w), (db, b)])
    jhvd.broadcast_once(opt, w, b)
    opt.apply_gradients((slopes[key], net[key]) for key in sorted(net))
    jhvd.broadcast_once(opt, [net[key] for key in sorted(net)])
