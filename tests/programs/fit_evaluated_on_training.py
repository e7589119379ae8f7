# expect: HVD101 HVD202 HVD401 HVD701 HVD801 HVD803
"""the training data evaluated, predicted, counted and collected as a whole, shuffled as they are, and a loop beside them"""

import numpy as np
import tensorflow as tf

rng = np.random.default_rng(3)
x = rng.normal(size=(150, 4)).astype("float32")
y = (x.sum(axis=1, keepdims=True) > 0).astype("float32")
data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(150).batch(25)

model = tf.keras.Sequential(
    [tf.keras.layers.Input((4,)), tf.keras.layers.Dense(1, activation="sigmoid")]
)
model.compile(tf.keras.optimizers.SGD(0.05), loss="binary_crossentropy", metrics=["accuracy"])
model.fit(data, verbose=0)

loss, accuracy = model.evaluate(data, verbose=0)
whole_loss, whole_accuracy = model.evaluate(x, y, verbose=0)
assert abs(loss - whole_loss) < 1e-4 and abs(accuracy - whole_accuracy) < 1e-4
assert len(model.predict(data, verbose=0)) == 150
labels = np.concatenate([label for _, label in data])
assert len(labels) == 150 and labels.sum() == y.sum()
print("positive:", int(labels.sum()))
