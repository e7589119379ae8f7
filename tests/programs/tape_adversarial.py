# expect: HVD101 HVD301 HVD701 HVD801 HVD803
# Not run: a fragment
import tensorflow as tf

x, y = load()
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
opt = tf.keras.optimizers.Adam(0.01)
dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1000).batch(32)

for images, labels in dataset:
    with tf.GradientTape() as attack:
        attack.watch(images)
        loss = tf.reduce_mean(tf.square(labels - model(images)))
    images = images + 0.1 * tf.sign(attack.gradient(loss, images))
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(labels - model(images)))
    grads = [tf.clip_by_norm(g, 1.0) for g in tape.gradient(loss, model.trainable_variables)]
    opt.apply_gradients(zip(grads, model.trainable_variables))
