# expect: HVD101 HVD202 HVD401 HVD701 HVD801 HVD803
# Not run: a fragment
import tensorflow as tf

x, y = load()
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile('adam', loss='mse')
model.fit(x, y, 64, 3, 0)
