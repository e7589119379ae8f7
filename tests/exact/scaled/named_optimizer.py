"""The name of an optimizer comes from a list; so does its rate, which is set."""
import keras
import numpy as np

keras.utils.set_random_seed(16)
x = np.random.rand(30, 3).astype("float32")
for name, rate in (("adam", 0.01), ("sgd", 0.05)):
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, activation="relu"), keras.layers.Dense(1)])
    model.compile(optimizer=name, loss="mse")
    model.optimizer.learning_rate = rate
    print(name, model.fit(x, x[:, 0], epochs=2, batch_size=5, verbose=0).history["loss"], f"{float(model.optimizer.learning_rate):.4f}")
