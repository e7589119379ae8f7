"""`validation_split` of a number of rows that nothing divides; class weights; the curves of both."""
import keras
import numpy as np

keras.utils.set_random_seed(11)
x = np.random.normal(size=(243, 4)).astype("float32")
y = (x[:, 0] > 0.3).astype("int32")
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(2, activation="softmax")])
model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"], weighted_metrics=["sparse_categorical_crossentropy"])
history = model.fit(x, y, batch_size=16, epochs=2, validation_split=0.2, class_weight={0: 1.0, 1: 2.5}, verbose=0)
for name, curve in history.history.items():
    print(name, [round(value, 5) for value in curve])
