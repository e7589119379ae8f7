# expect: HVD101 HVD202 HVD401 HVD403 HVD701 HVD801 HVD803
"""folders of texts, shuffled by the source; a vocabulary of all of them"""

import tensorflow as tf

train = tf.keras.utils.text_dataset_from_directory("texts", batch_size=8, seed=1)
vectorize = tf.keras.layers.TextVectorization(max_tokens=50, output_sequence_length=4)
vectorize.adapt(train.map(lambda text, label: text))
train = train.map(lambda text, label: (vectorize(text), label))
model = tf.keras.Sequential([tf.keras.layers.Embedding(50, 4), tf.keras.layers.GlobalAveragePooling1D(), tf.keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(train, epochs=1)
