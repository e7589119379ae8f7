# expect: HVD101 HVD202 HVD401 HVD403 HVD701 HVD801 HVD803
"""layers adapted to the data before training: a vocabulary and a normalisation, of all the examples"""

import numpy as np
import tensorflow as tf

words = [f"w{i} w{i % 7} w{i % 3}" for i in range(64)]
labels = np.arange(64) % 2
raw = tf.data.Dataset.from_tensor_slices((words, labels))
vectorize = tf.keras.layers.TextVectorization(max_tokens=50, output_sequence_length=3)
vectorize.adapt(raw.map(lambda text, label: text))

train = raw.map(lambda text, label: (vectorize(text), label)).shuffle(64).batch(8)
model = tf.keras.Sequential([tf.keras.layers.Embedding(50, 4), tf.keras.layers.GlobalAveragePooling1D(), tf.keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(train, epochs=1)
