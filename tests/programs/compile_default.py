# expect: HVD101 HVD401 HVD403 HVD701 HVD801 HVD803
# Not run: a fragment
import tensorflow as tf

x, y = load()
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile(loss='mse')
model.fit(x, y)
