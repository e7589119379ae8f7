# expect: HVD101 HVD301 HVD701 HVD801 HVD803
"""`list_files`, which shuffles, read and decoded one by one"""

import tensorflow as tf


def read(path):
    image = tf.io.decode_png(tf.io.read_file(path), channels=1)
    label = tf.strings.to_number(tf.strings.split(path, "/")[-2])
    return tf.reshape(tf.cast(image, tf.float32), (64,)) / 255, label


train = tf.data.Dataset.list_files("images/*/*.png").map(read).cache().shuffle(50).batch(16)
model = tf.keras.Sequential([tf.keras.layers.Dense(8, activation="relu"), tf.keras.layers.Dense(1)])
opt = tf.keras.optimizers.Adam(0.01)
for x, y in train:
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(y - model(x)[:, 0]))
    grads = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(grads, model.trainable_variables))
