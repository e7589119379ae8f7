# expect: HVD101 HVD301 HVD701 HVD802 HVD803
# Not run: a fragment
import tensorflow as tf

x, y = load()
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
opt = tf.keras.optimizers.Adam(0.01)
dataset = tf.data.Dataset.from_tensor_slices((x, y)).repeat().shuffle(1000).batch(32)
for image, _ in dataset.take(1):
    draw(image)

for batch, (images, labels) in enumerate(dataset.take(count=10000)):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.square(labels - model(images)))
    grads = tape.gradient(loss, model.trainable_variables)
    opt.apply_gradients(zip(grads, model.trainable_variables))
