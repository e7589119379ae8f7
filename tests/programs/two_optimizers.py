# expect: HVD101 HVD301 HVD701 HVD801 HVD803
# Not run: a fragment
import tensorflow as tf

x, y = load()
a = tf.keras.Sequential([tf.keras.layers.Dense(1)])
b = tf.keras.Sequential([tf.keras.layers.Dense(1)])
opt_a, opt_b = tf.keras.optimizers.Adam(1e-3), tf.keras.optimizers.RMSprop(learning_rate=1e-4)
dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1000).batch(32)


@tf.function
def step(images, labels):
    with tf.GradientTape() as tape_a, tf.GradientTape() as tape_b:
        loss_a = tf.reduce_mean(tf.square(labels - a(images)))
        loss_b = tf.reduce_mean(tf.square(labels - b(images)))
    opt_a.apply_gradients(zip(tape_a.gradient(loss_a, a.trainable_variables), a.trainable_variables))
    opt_b.apply_gradients(zip(tape_b.gradient(loss_b, b.trainable_variables), b.trainable_variables))


for images, labels in dataset:
    step(images, labels)
