# expect: HVD101 HVD102 HVD202 HVD401 HVD403 HVD701 HVD801 HVD803
# Not run: a fragment
import os

import tensorflow as tf

os.environ['CUDA_VISIBLE_DEVICES'] = '1'  # the second GPU
os.environ['TF_CPP_MIN_LOG_LEVEL'] = '2'
if True:
    os.environ['CUDA_VISIBLE_DEVICES'] = '0'
x, y = load()
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile('adam', loss='mse')
model.fit(x, y)
