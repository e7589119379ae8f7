"""A seed of TensorFlow, and `tf.data` maps that draw: noise, crops, flips."""
import numpy as np
import tensorflow as tf

tf.random.set_seed(7)
images = np.random.default_rng(0).random((30, 6, 6, 1)).astype("float32")
labels = (images.mean((1, 2, 3)) > 0.5).astype("float32")


def augment(image, label):
    image = tf.image.random_flip_left_right(image + tf.random.normal(tf.shape(image), stddev=0.1))
    return tf.image.random_crop(image, (5, 5, 1)), label


data = tf.data.Dataset.from_tensor_slices((images, labels)).shuffle(30, seed=2).map(augment).batch(8)
model = tf.keras.Sequential([tf.keras.Input((5, 5, 1)), tf.keras.layers.Conv2D(4, 3, activation="relu"), tf.keras.layers.GlobalMaxPooling2D(), tf.keras.layers.Dense(1)])
model.compile("adam", tf.keras.losses.BinaryCrossentropy(from_logits=True), metrics=["accuracy"])
history = model.fit(data, epochs=3, verbose=0)
print(history.history)
