"""`fit` with batch normalisation, dropout, a validation split and early stopping, on a ragged last batch."""
import keras
import numpy as np

rng = np.random.default_rng(0)
x = rng.normal(size=(70, 8)).astype("float32")
y = (x[:, :3].sum(1) > 0).astype("int32")
model = keras.Sequential([
    keras.layers.Dense(16, activation="relu"),
    keras.layers.BatchNormalization(momentum=0.8),
    keras.layers.Dropout(0.3),
    keras.layers.Dense(1, activation="sigmoid"),
])
model.compile("adam", "binary_crossentropy", metrics=["accuracy", keras.metrics.AUC(name="auc")])
stop = keras.callbacks.EarlyStopping(patience=1, restore_best_weights=True)
history = model.fit(x, y, epochs=4, batch_size=15, verbose=0, validation_split=0.2, callbacks=[stop])
print(len(history.epoch), model.evaluate(x, y, verbose=0))
print(model.predict(x[:5], verbose=0).ravel())
