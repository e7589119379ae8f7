# expect: HVD101 HVD202 HVD401 HVD403 HVD701 HVD801 HVD803
# Not run: a fragment
import tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers

x, y = load()
model = keras.Sequential([layers.Dense(1)])
model.compile('adam', loss='mse')
model.fit(x, y)
