# expect: HVD101 HVD202 HVD401 HVD403 HVD701 HVD801 HVD803
# Keras 3 alone: Keras 2 has no `PyDataset`
"""batches by number from a `PyDataset` with workers"""

import keras
import numpy as np

rng = np.random.RandomState(0)
x = rng.normal(size=(96, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")


class Rows(keras.utils.PyDataset):
    def __init__(self, x, y, size, **options):
        super().__init__(**options)
        self.x, self.y, self.size = x, y, size

    def __len__(self):
        return len(self.x) // self.size

    def __getitem__(self, index):
        rows = slice(index * self.size, (index + 1) * self.size)
        return self.x[rows], self.y[rows]


model = keras.Sequential([keras.layers.Dense(16, activation="relu"), keras.layers.Dense(1)])
model.compile(keras.optimizers.Adam(1e-3), keras.losses.BinaryCrossentropy(from_logits=True))
model.fit(Rows(x, y, 16, workers=2), epochs=2)
