# expect: refused HVD904
"""an Estimator"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

estimator = tf.estimator.LinearRegressor([tf.feature_column.numeric_column("x", (8,))])
estimator.train(lambda: tf.data.Dataset.from_tensors(({"x": x}, y)))
