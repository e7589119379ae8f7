# expect: HVD101 HVD202 HVD401 HVD403 HVD701 HVD801 HVD803
# Not run: a fragment
import tensorflow as tf

x, y = load()
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
callbacks = [tf.keras.callbacks.TerminateOnNaN()]
model.compile('adam', loss='mse')
model.fit(x, y, callbacks=callbacks, verbose=int(loud))
model.fit(x, y, callbacks=None)
model.fit(x, y, callbacks=tf.keras.callbacks.EarlyStopping())
