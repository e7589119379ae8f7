# expect: HVD101 HVD202 HVD401 HVD403 HVD701 HVD801 HVD803
# Not run: a fragment
import tensorflow as flow

tf = 'not what it seems'
hvd = 3
x, y = load()
model = flow.keras.Sequential([flow.keras.layers.Dense(1)])
model.compile('adam', loss='mse')
model.fit(x, y)
