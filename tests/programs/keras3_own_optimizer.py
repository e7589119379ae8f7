# expect: HVD101 HVD202 HVD401 HVD701 HVD801 HVD803
# Keras 3 alone: optimizers of Keras 2 have no `add_variable_from_reference(v, "kept")`
"""an optimizer of the program's own that inherits Keras', its rate by position and by its default"""

import numpy as np
import tensorflow as tf
from tensorflow import keras

rng = np.random.RandomState(0)
x = rng.normal(size=(160, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")


class SignedMomentum(keras.optimizers.Optimizer):
    def __init__(self, learning_rate=2e-3, momentum=0.9, **kwargs):
        super().__init__(learning_rate=learning_rate, **kwargs)
        self.momentum = momentum

    def build(self, variables):
        if not self.built:
            super().build(variables)
            self.kept = [self.add_variable_from_reference(v, "kept") for v in variables]

    def update_step(self, gradient, variable, learning_rate):
        kept = self.kept[self._get_variable_index(variable)]
        self.assign(kept, self.momentum * kept + (1 - self.momentum) * gradient)
        self.assign_sub(variable, tf.cast(learning_rate, variable.dtype) * tf.sign(kept))


for optimizer in (SignedMomentum(1e-3), SignedMomentum()):
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dense(1)])
    model.compile(optimizer, "mse")
    model.fit(x, y, epochs=2, batch_size=20, verbose=0)
