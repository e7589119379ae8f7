# expect: HVD101 HVD202 HVD401 HVD403 HVD701 HVD801 HVD803
"""no name for tensorflow at all"""

import numpy as np
from tensorflow.keras.layers import Dense
from tensorflow.keras.models import Sequential
from tensorflow.keras.optimizers import RMSprop

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

model = Sequential([Dense(16, activation="relu"), Dense(1)])
model.compile(optimizer=RMSprop(), loss="mse")
history = model.fit(x, y, epochs=2, batch_size=16)
