# expect: HVD101 HVD301 HVD701 HVD801 HVD803
# Not run: a fragment
import tensorflow as tf

x, y = load()
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
opt = tf.keras.optimizers.Adam(0.01)
dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1000).batch(32)


def step(images, labels):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(labels - model(images)))
    grads = tape.gradient(loss, model.trainable_variables)
    done = opt.apply_gradients(grads_and_vars=zip(grads, model.trainable_variables))
    return loss


for images, labels in dataset:
    step(images, labels)
