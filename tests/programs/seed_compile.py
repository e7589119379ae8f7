# expect: HVD101 HVD202 HVD401 HVD403 HVD701 HVD801 HVD803
# Not run: a fragment
import tensorflow as tf

x, y = load()
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile("adam", loss='mse')
model.fit(x, y)
other = tf.keras.models.Sequential([tf.keras.layers.Dense(1)])
other.compile(optimizer='adam', loss='mse')
other.fit(x, y)
