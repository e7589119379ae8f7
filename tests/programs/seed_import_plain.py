# expect: HVD101 HVD202 HVD401 HVD403 HVD503
# Not run: a fragment
import tensorflow

x, y = load()
model = tensorflow.keras.Sequential([tensorflow.keras.layers.Dense(1)])
model.compile('adam', loss='mse')
model.fit(x, y)
