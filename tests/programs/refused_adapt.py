# refused HVD502
"""a vocabulary taken from a dataset that is already shuffled and batched for training"""

import numpy as np
import tensorflow as tf

words = [f"w{i} w{i % 7} w{i % 3}" for i in range(64)]
train = tf.data.Dataset.from_tensor_slices((words, np.arange(64) % 2)).shuffle(64).batch(8)
encoder = tf.keras.layers.TextVectorization(max_tokens=50, output_sequence_length=3)
encoder.adapt(train.map(lambda text, label: text))
model = tf.keras.Sequential([encoder, tf.keras.layers.Embedding(50, 4), tf.keras.layers.Flatten(), tf.keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(train, epochs=1)
