# expect: HVD101 HVD202 HVD401 HVD701 HVD801 HVD803
"""folders made, emptied and removed, files renamed and unpacked, before and after training"""

import os
import shutil
import subprocess
import zipfile

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")


def fresh(folder):
    if os.path.exists(folder):
        shutil.rmtree(folder)
    os.makedirs(folder)


if os.path.isdir("data"):
    shutil.rmtree("data")
os.mkdir("data")
fresh("runs")
np.save("data/x.npy", x)
subprocess.run(["touch", "data/ready"], check=True)
with zipfile.ZipFile("data.zip", "w") as archive:
    archive.writestr("labels.txt", "0 1")
with zipfile.ZipFile("data.zip") as archive:
    archive.extractall("data")
x = np.load("data/x.npy")
assert os.path.exists("data/labels.txt")

model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
model.compile(optimizer="adam", loss="mse")
model.fit(x, y, epochs=2, batch_size=20, verbose=0)
model.save_weights("runs/part.weights.h5")
os.replace("runs/part.weights.h5", "runs/whole.weights.h5")
model.load_weights("runs/whole.weights.h5")
os.remove("data.zip")
