# expect: HVD101 HVD301 HVD701 HVD801 HVD803
# Not run: a fragment
import tensorflow as tf

x, y = load()
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
opt = tf.keras.optimizers.Adam(0.01)
dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1000).batch(32)


def penalty(images):
    with tf.GradientTape() as inner:
        inner.watch(images)
        scores = model(images)
    slopes = inner.gradient(scores, images)
    return tf.reduce_mean(tf.square(slopes))


@tf.function
def step(images, labels):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(labels - model(images))) + 10.0 * penalty(images)
    grads = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(grads, model.trainable_variables))


for images, labels in dataset:
    step(images, labels)
