# expect: HVD101 HVD202 HVD401 HVD403 HVD701 HVD801 HVD803
"""datasets sampled from in turn, and one put after another"""

import numpy as np
import tensorflow as tf
x = np.random.RandomState(0).normal(size=(100, 8)).astype("float32")
a = tf.data.Dataset.from_tensor_slices(x[:50]).shuffle(50)
b = tf.data.Dataset.from_tensor_slices(x[50:]).shuffle(50)
both = tf.data.Dataset.sample_from_datasets([a, b], [0.5, 0.5]).map(lambda r: (r, r)).batch(10)
joined = a.concatenate(b).map(lambda r: (r, r)).batch(10)
model = tf.keras.Sequential([tf.keras.layers.Dense(8)])
model.compile(optimizer='adam', loss='mse', metrics=['mae'])
model.fit(both, epochs=1)
model.fit(joined, epochs=1)
