# expect: HVD101 HVD301 HVD701 HVD801 HVD803
# Not run: a fragment
import tensorflow as tf

from tensorflow.keras import optimizers

x, y = load()
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
base = 0.01
by_keyword = tf.optimizers.Adam(learning_rate=base / 2)  # half
by_position = tf.optimizers.Adam(base)
from_module = optimizers.Adam(0.1, beta_1=0.5)
old_spelling = optimizers.SGD(lr=0.1)
dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(8)
for opt in (by_keyword, by_position, from_module, old_spelling):
    for images, labels in dataset:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(labels - model(images)))
        grads = tape.gradient(loss, model.trainable_variables)
        opt.apply_gradients(zip(grads, model.trainable_variables))
