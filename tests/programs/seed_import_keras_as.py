# expect: HVD101 HVD202 HVD401 HVD403 HVD701 HVD801 HVD803
# Not run: a fragment
import tensorflow.keras as k

x, y = load()
model = k.models.Sequential([k.layers.Dense(1)])
model.compile('adam', loss='mse')
model.fit(x, y)
