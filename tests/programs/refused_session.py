# expect: refused HVD903
"""a session of TensorFlow 1"""

import tensorflow.compat.v1 as tf

tf.disable_v2_behavior()
w = tf.Variable(0.0)
train = tf.train.GradientDescentOptimizer(0.1).minimize(w * w)
with tf.Session() as session:
    session.run(train)
