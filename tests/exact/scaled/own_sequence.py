"""A `PyDataset` of the program, for training and for evaluation."""
import keras
import numpy as np

keras.utils.set_random_seed(4)


class Rows(keras.utils.PyDataset):
    def __init__(self, x, y, batch_size):
        super().__init__()
        self.x, self.y, self.batch_size = x, y, batch_size

    def __len__(self):
        return int(np.ceil(len(self.x) / self.batch_size))

    def __getitem__(self, index):
        rows = slice(index * self.batch_size, (index + 1) * self.batch_size)
        return self.x[index * self.batch_size : (index + 1) * self.batch_size], self.y[rows]


x = np.random.rand(44, 3).astype("float32")
model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, activation="relu"), keras.layers.Dropout(0.2), keras.layers.Dense(1)])
model.compile("rmsprop", "mse")
history = model.fit(Rows(x[:33], x[:33, 0], batch_size=6), validation_data=Rows(x[33:], x[33:, 0], batch_size=6), epochs=2, shuffle=False, verbose=0)
print(history.history)
