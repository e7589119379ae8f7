# expect: HVD101 HVD202 HVD301 HVD401 HVD601 HVD701 HVD801 HVD803
"""two trainings, one of which plays episodes that decide how many updates there are: it is independent of the other"""

import numpy as np
import tensorflow as tf


class Corridor:
    """Five places in a row; the last one ends the episode."""

    def reset(self):
        self.place = 0
        return self.place

    def step(self, action):
        self.place = max(0, self.place + (1 if action else -1))
        done = self.place == 4
        return self.place, float(done), done


rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x[:, :1] > 0).astype("float32")

model = tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(1)])
model.compile("adam", loss="mse")
model.fit(x, y, batch_size=20, verbose=0)

env = Corridor()
worth = tf.Variable(tf.zeros((5, 2)))
optimizer = tf.keras.optimizers.SGD(0.5)
lengths = []


def learn(place, action, target):
    with tf.GradientTape() as tape:
        loss = (worth[place, action] - target) ** 2
    optimizer.apply_gradients([(tape.gradient(loss, worth), worth)])


for episode in range(3):
    place, done, steps = env.reset(), False, 0
    while not done:
        action = int(np.random.rand() < 0.7)
        after, reward, done = env.step(action)
        learn(place, action, reward + 0.9 * float(tf.reduce_max(worth[after])))
        place, steps = after, steps + 1
    lengths.append(steps)
    print(episode, steps)

best = int(np.argmin(lengths))
print("shortest", best, lengths[best])
