# expect: HVD101 HVD202 HVD401 HVD403 HVD601 HVD701 HVD801 HVD803
# Not run: a fragment
import tensorflow as tf

x, y = load()
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
opt = tf.keras.optimizers.Nadam()
model.compile(opt, loss='mse')
model.fit(x, y)
print(opt.learning_rate)
