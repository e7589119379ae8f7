# expect: HVD101 HVD202 HVD401 HVD701 HVD801 HVD803
"""What other libraries write: pictures, arrays, pickles, tables of text, a path that opens itself, a mode that is handed on, a buffer, which every rank reads itself."""

import io
from pathlib import Path

import joblib
import matplotlib
import numpy as np
import scipy.io
import tensorflow as tf
import yaml
from matplotlib.backends.backend_pdf import PdfPages
from PIL import Image

matplotlib.use("Agg")
import matplotlib.pyplot as plt

rng = np.random.default_rng(7)
x = rng.normal(size=(128, 4)).astype("float32")
y = x.sum(axis=1, keepdims=True)


def keep(path, text, mode="w"):
    with open(path, mode) as file:
        file.write(text)


class Pictures(tf.keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        made = self.model.predict(x[:16], verbose=0).reshape(4, 4)
        Image.fromarray(np.uint8(np.clip(made * 50 + 128, 0, 255))).save(f"made_{epoch}.png")
        buffer = io.BytesIO()
        Image.fromarray(np.uint8(np.clip(made * 50 + 128, 0, 255))).save(buffer, format="PNG")
        assert tf.image.decode_png(buffer.getvalue()).shape == (4, 4, 1)


model = tf.keras.Sequential([tf.keras.layers.Input((4,)), tf.keras.layers.Dense(1)])
model.compile("adam", loss="mse")
history = model.fit(x, y, batch_size=16, epochs=2, callbacks=[Pictures()], verbose=0)

joblib.dump(history.history, "history.joblib")
scipy.io.savemat("made.mat", {"made": model.predict(x, verbose=0)})
x.tofile("x.bin")
with Path("history.yaml").open("w") as file:
    yaml.dump({"loss": [float(loss) for loss in history.history["loss"]]}, file)
with PdfPages("losses.pdf") as pages:
    figure = plt.figure()
    plt.plot(history.history["loss"])
    pages.savefig(figure)
keep("a.txt", "trained\n")
keep("a.txt", "twice\n", "a")
print(len(joblib.load("history.joblib")["loss"]), "epochs")
