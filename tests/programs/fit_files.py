# expect: HVD101 HVD202 HVD401 HVD403 HVD701 HVD801 HVD803
"""the best weights read again, a history written as JSON, a cache file, a text file appended to"""

import json
import os

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(96, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")
os.makedirs("run", exist_ok=True)

train = tf.data.Dataset.from_tensor_slices((x, y)).cache(os.path.join("run", "cache")).shuffle(96).batch(16)
model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
model.compile("adam", "mse")
best = tf.keras.callbacks.ModelCheckpoint("run/best.weights.h5", save_weights_only=True, monitor="loss")
history = model.fit(train, epochs=1, callbacks=[best])
with open("run/history.json", "w") as file:
    json.dump(history.history, file)
model.load_weights("run/best.weights.h5")
with open("run/log.txt", mode="a") as log:
    print(len(history.history["loss"]), "epochs", file=log)
np.save("run/weights.npy", model.get_weights()[0])
print(np.load("run/weights.npy").shape)
