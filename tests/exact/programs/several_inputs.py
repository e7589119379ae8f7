"""Two inputs, two outputs, class and sample weights, a nested model, several steps per execution."""
import keras
import numpy as np

keras.utils.set_random_seed(9)
L = keras.layers
a, b = keras.Input((4,), name="a"), keras.Input((3,), name="b")
tower = keras.Sequential([keras.Input((4,)), L.Dense(6, activation="relu"), L.BatchNormalization()], name="tower")
h = L.Concatenate()([tower(a), L.Dense(2)(b)])
model = keras.Model({"a": a, "b": b}, {"p": L.Dense(1, activation="sigmoid", name="p")(h), "q": L.Dense(2, name="q")(h)})
model.compile(keras.optimizers.Adam(0.01), {"p": "binary_crossentropy", "q": "mse"}, loss_weights={"p": 1.0, "q": 0.3}, steps_per_execution=2)
rng = np.random.default_rng(0)
x = {"a": rng.normal(size=(45, 4)).astype("float32"), "b": rng.normal(size=(45, 3)).astype("float32")}
y = {"p": rng.integers(0, 2, (45, 1)), "q": rng.normal(size=(45, 2)).astype("float32")}
model.fit(x, y, sample_weight={"p": rng.random(45), "q": rng.random(45)}, epochs=2, batch_size=8, verbose=0)
single = keras.Sequential([keras.Input((4,)), L.Dense(2, activation="softmax", kernel_regularizer="l2")])
single.compile("sgd", "sparse_categorical_crossentropy")
single.fit(x["a"], y["p"][:, 0], class_weight={0: 1.0, 1: 3.0}, epochs=2, batch_size=10, verbose=0)
print(single.train_on_batch(x["a"][:5], y["p"][:5, 0]))
