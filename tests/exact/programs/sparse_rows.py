"""SciPy's sparse rows, given to `fit` and `predict`, and made dense batch by batch."""
import keras
import numpy as np
import scipy.sparse as sparse

keras.utils.set_random_seed(14)
x = sparse.random(30, 12, density=0.3, random_state=1, dtype="float32", format="csr")
y = np.asarray(x.sum(1)).ravel()
model = keras.Sequential([keras.Input((12,)), keras.layers.Dense(5, activation="relu"), keras.layers.Dense(1)])
model.compile("adam", "mse")
for start in range(0, 30, 7):
    print(f"{float(model.train_on_batch(x[start : start + 7].toarray(), y[start : start + 7])):.5f}")
history = model.fit(x.tocoo(), y, batch_size=8, epochs=2, shuffle=False, verbose=0)
print(history.history["loss"], model.predict(x.toarray()[:5], verbose=0).ravel())
