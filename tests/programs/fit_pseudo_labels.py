# expect: HVD101 HVD202 HVD401 HVD701 HVD801 HVD803
"""a model with batch normalisation chooses, by its own predictions, what it is trained on next"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(32, 4)).astype("float32")
y = (x.sum(axis=1) > 0).astype("int64")
unlabelled = rng.normal(size=(256, 4)).astype("float32")

model = tf.keras.Sequential(
    [
        tf.keras.layers.Input((4,)),
        tf.keras.layers.BatchNormalization(momentum=0.5),
        tf.keras.layers.Dense(2, activation="softmax"),
    ]
)
model.compile(tf.keras.optimizers.SGD(0.1), loss="sparse_categorical_crossentropy")
model.fit(x, y, batch_size=8, verbose=0)

guessed = model.predict(unlabelled, verbose=0)
sure = np.argsort(guessed.max(axis=1))[-32:]
more, labels = np.concatenate([x, unlabelled[sure]]), np.concatenate([y, guessed[sure].argmax(axis=1)])
model.fit(more, labels, batch_size=16, shuffle=False, verbose=0)
