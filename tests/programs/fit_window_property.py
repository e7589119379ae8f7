# expect: HVD101 HVD202 HVD401 HVD403 HVD701 HVD802 HVD803
"""windows of a series by a property that is put into the class later, made anew at each use"""

import numpy as np
import tensorflow as tf


class Windows:
    def __init__(self, series):
        self.series = series

    def make(self, series):
        return tf.keras.utils.timeseries_dataset_from_array(series[:-4], series[4:], sequence_length=4, shuffle=True, batch_size=16)


@property
def train(self):
    return self.make(self.series)


Windows.train = train


def compile_and_fit(model, windows):
    model.compile("adam", "mse")
    return model.fit(windows.train, epochs=1)


windows = Windows(np.sin(np.arange(240) / 9).astype("float32")[:, None])
print(next(iter(windows.train))[0].shape)
model = tf.keras.Sequential([tf.keras.layers.Dense(4), tf.keras.layers.GlobalAveragePooling1D(), tf.keras.layers.Dense(1)])
compile_and_fit(model, windows)
