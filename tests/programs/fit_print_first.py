# expect: HVD101 HVD202 HVD401 HVD601 HVD701 HVD801 HVD803
"""printing, and writing a file, before TensorFlow is imported"""
import json

print("begin")
with open("settings.json", "w") as file:
    json.dump({"epochs": 2}, file)

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(96, 4)).astype("float32")
y = x.sum(axis=1, keepdims=True)
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile("sgd", loss="mse")
model.fit(x, y, batch_size=8, epochs=2, verbose=0)
print("end")
