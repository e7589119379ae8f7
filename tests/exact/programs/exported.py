"""A model is exported after its training, and loads without Horovod; layers that call compiled functions; weights of K-folds."""
import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(17)
rng = np.random.default_rng(0)
x, y = rng.normal(size=(24, 4)).astype("float32"), rng.normal(size=(24, 1)).astype("float32")


class Compiled(keras.layers.Layer):
    @tf.function
    def call(self, x):
        return 2.0 * x


scores = []
for fold in range(2):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3, activation="relu"), keras.layers.Dense(1)])
    model.compile("adam", "mae")
    kept = np.arange(24) % 2 != fold
    model.fit(x[kept], y[kept], epochs=1, batch_size=5, verbose=0)
    scores.append(model.evaluate(x[~kept], y[~kept], verbose=0))
print(scores, float(tf.reduce_sum(Compiled()(x))))
model.export("exported", verbose=False)
print(b"Horovod" in open("exported/saved_model.pb", "rb").read())
print(tf.saved_model.load("exported").serve(x[:2]).numpy().ravel(), model.predict_on_batch(x[:3]).ravel())
model.save("model.keras")
print(keras.models.load_model("model.keras").predict(x[:3], verbose=0).ravel())
