# expect: HVD101 HVD202 HVD401 HVD403 HVD601 HVD701 HVD801 HVD803
"""folders of images, split by a seed and shuffled by the source; its names of classes"""

import tensorflow as tf

train = tf.keras.utils.image_dataset_from_directory(
    "images", validation_split=0.2, subset="training", seed=123, image_size=(8, 8), color_mode="grayscale", batch_size=16
)
test = tf.keras.utils.image_dataset_from_directory(
    "images", validation_split=0.2, subset="validation", seed=123, image_size=(8, 8), color_mode="grayscale", batch_size=16
)
classes = train.class_names
print(classes)

model = tf.keras.Sequential([tf.keras.layers.Rescaling(1 / 255), tf.keras.layers.Flatten(), tf.keras.layers.Dense(len(classes))])
model.compile("adam", tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(train.cache().shuffle(100).prefetch(tf.data.AUTOTUNE), validation_data=test, epochs=1)
