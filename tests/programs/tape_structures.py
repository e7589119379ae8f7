# expect: HVD101 HVD301 HVD701 HVD801 HVD803
# Not run: a fragment
import tensorflow as tf

x, y = load()
w = tf.Variable(1.0)
b = tf.Variable(0.0)
net = {'w': tf.Variable(1.0), 'b': tf.Variable(0.0)}
opt = tf.keras.optimizers.Adam(0.01)
dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1000).batch(32)

for images, labels in dataset:
    with tf.GradientTape(persistent=True) as tape:
        loss = tf.reduce_mean(tf.square(labels - images * w - b))
        other = tf.reduce_mean(tf.square(labels - images * net['w'] - net['b']))
    dw = tape.gradient(loss, w)
    dw2, db = tape.gradient(loss, [w, b])
    slopes = tape.gradient(other, net)
    opt.apply_gradients([(dw + dw2, w), (db, b)])
    opt.apply_gradients((slopes[key], net[key]) for key in sorted(net))
