# expect: HVD101 HVD202 HVD401 HVD403 HVD701 HVD801 HVD803 HVD804
"""`ImageDataGenerator.flow`, and its batches counted by hand"""

import numpy as np
import tensorflow as tf
from tensorflow.keras.preprocessing.image import ImageDataGenerator

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 4, 4, 1)).astype("float32")
y = (x.mean(axis=(1, 2)) > 0).astype("float32")

generator = ImageDataGenerator(rescale=0.5)
train = generator.flow(x, y, batch_size=20)
model = tf.keras.Sequential([tf.keras.layers.Flatten(), tf.keras.layers.Dense(1)])
model.compile("adam", "mse")
history = model.fit(train, steps_per_epoch=len(x) // 20, epochs=2, validation_data=generator.flow(x, y))
