"""A model that has not seen an input takes the weights of one that has: run by `test_runtime.py`."""

import numpy as np
import tensorflow as tf

from jupyter_hvd.rank.serialization import pack, unpack


class Classifier(tf.keras.Model):
    def __init__(self):
        super().__init__()
        self.hidden = tf.keras.layers.Dense(3, activation="tanh")
        self.dropout = tf.keras.layers.Dropout(0.2)
        self.out = tf.keras.layers.Dense(2)

    def call(self, x, training=False):
        return self.out(self.dropout(self.hidden(x), training=training))


def sequential():
    return tf.keras.Sequential([tf.keras.layers.Dense(3), tf.keras.layers.BatchNormalization()])


x = np.ones((4, 5), "float32")
for make in (Classifier, sequential):
    there, here = make(), make()
    tf.function(there)(x)
    assert unpack(pack(there), here) is here
    np.testing.assert_array_equal(there(x), here(x))
    assert [v.shape for v in there.weights] == [v.shape for v in here.weights]
print("both")
