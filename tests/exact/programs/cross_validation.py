"""Folds by scikit-learn, a model each, the best one kept; a search over random settings; scores by scikit-learn."""
import keras
import numpy as np
from sklearn.metrics import f1_score, roc_auc_score
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.preprocessing import StandardScaler

keras.utils.set_random_seed(34)
x = np.random.normal(size=(60, 4))
y = (x[:, 0] + 0.3 * np.random.normal(size=60) > 0).astype("int64")


def make(width, rate):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(width, activation="relu"), keras.layers.Dense(1, activation="sigmoid")])
    model.compile(keras.optimizers.Adam(rate), "binary_crossentropy", metrics=["accuracy"])
    return model


scores = []
for train, test in StratifiedKFold(3, shuffle=True, random_state=1).split(x, y):
    scale = StandardScaler().fit(x[train])
    model = make(6, 0.02)
    stop = keras.callbacks.EarlyStopping("val_loss", patience=1, restore_best_weights=True)
    model.fit(scale.transform(x[train]), y[train], batch_size=9, epochs=4, validation_data=(scale.transform(x[test]), y[test]), callbacks=[stop], verbose=0)
    p = model.predict(scale.transform(x[test]), verbose=0).ravel()
    scores.append((roc_auc_score(y[test], p), f1_score(y[test], p > 0.5)))
print(np.round(scores, 4).tolist())
a, b, c, d = train_test_split(x, y, test_size=0.25)
found = []
for _ in range(3):
    width, rate = int(np.random.choice([4, 8, 16])), float(10 ** np.random.uniform(-3, -1))
    model = make(width, rate)
    model.fit(a, c, batch_size=16, epochs=2, verbose=0)
    found.append((round(model.evaluate(b, d, verbose=0)[0], 5), width, round(rate, 5)))
print(min(found), found)
