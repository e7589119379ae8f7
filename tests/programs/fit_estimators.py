# expect: HVD101 HVD202 HVD601 HVD701 HVD801
# Keras 3 alone: the estimators of Keras itself are of Keras 3
"""estimators for scikit-learn: in a pipeline, cross-validated, searched for, fitted again with what was found"""

import numpy as np
import tensorflow as tf
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

rng = np.random.RandomState(0)
x = rng.normal(size=(240, 8)).astype("float32")
y = (x @ rng.normal(size=8) > 0).astype("int64")
x_train, x_test, y_train, y_test = train_test_split(x, y)


def build(X, y, width=8, rate=0.01):
    model = tf.keras.Sequential(
        [
            tf.keras.layers.Dense(width, activation="relu"),
            tf.keras.layers.Dense(2, activation="softmax"),
        ]
    )
    model.compile(tf.keras.optimizers.SGD(learning_rate=rate), "categorical_crossentropy")
    return model


estimator = tf.keras.wrappers.SKLearnClassifier(build, fit_kwargs={"epochs": 2, "batch_size": 20})
pipeline = make_pipeline(StandardScaler(), estimator)
scores = cross_val_score(pipeline, x_train, y_train, cv=KFold(2, shuffle=True))
print("scores", scores.shape)
choices = {"sklearnclassifier__model_kwargs": [{"width": 4}, {"width": 8, "rate": 0.1}]}
search = GridSearchCV(pipeline, choices, cv=2, verbose=1)
search.fit(x_train, y_train)
print(search.best_params_, search.score(x_test, y_test))
