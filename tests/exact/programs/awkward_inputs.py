"""Inputs that have no rows to share: an empty last batch, a scalar, ragged and sparse tensors, a batch smaller than the ranks, in `fit`, too."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(21)
rng = np.random.default_rng(1)
layers = tf.keras.layers


def batches():
    for rows in (6, 1, 5, 0):
        yield rng.normal(size=(rows, 4)).astype("float32"), rng.normal(size=(rows, 1)).astype("float32")


spec = (tf.TensorSpec((None, 4)), tf.TensorSpec((None, 1)))
data = tf.data.Dataset.from_generator(batches, output_signature=spec)
for steps in (1, 2):
    model = tf.keras.Sequential([tf.keras.Input((4,)), layers.Dense(3, activation="tanh"), layers.Dropout(0.2), layers.Dense(1)])
    model.compile("sgd", tf.keras.losses.MeanSquaredError("sum"), steps_per_execution=steps)
    print(model.fit(data, epochs=2, verbose=0).history["loss"], [float(tf.reduce_sum(w)) for w in model.get_weights()])
    print(model.predict(data, verbose=0).sum())


class Scaled(layers.Layer):
    def build(self, shape=None):
        self.factor = self.add_weight(name="factor", shape=(), initializer="ones")
        self.built = True

    def call(self, x):
        if isinstance(x, tf.RaggedTensor | tf.SparseTensor):
            return tf.reduce_sum(x.values) * self.factor
        return x * self.factor


scaled = Scaled()
scaled.build()
rows = tf.ragged.constant([[1.0], [2.0, 3.0], [4.0], []])
sparse = tf.sparse.from_dense(np.eye(4, 3, dtype="float32"))


def slope(x):
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(scaled(x) ** 2)
    return tape.gradient(loss, scaled.factor if tf.keras.__version__ < "3" else scaled.factor.value)


for x in (tf.constant(3.0), rows, sparse, tf.ones((4, 2))):
    print(float(slope(x)), float(tf.function(slope)(x)))
