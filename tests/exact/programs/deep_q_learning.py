"""DQN: a replay buffer with priorities, a target network, steps that act by `predict` and learn by `train_on_batch`."""
import collections
import random

import keras
import numpy as np

keras.utils.set_random_seed(25)


def make():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(12, activation="relu"), keras.layers.Dense(2)])
    model.compile(keras.optimizers.Adam(0.01), keras.losses.Huber())
    return model


online, target = make(), make()
target.set_weights(online.get_weights())
memory = collections.deque(maxlen=50)
state, epsilon = np.zeros(3, "float32"), 1.0
for step in range(30):
    if random.random() < epsilon:
        action = random.randrange(2)
    else:
        action = int(online.predict(state[None], verbose=0).argmax())
    following = np.clip(state + np.array([action - 0.5, 0.1, np.random.normal() * 0.1]), -1, 1).astype("float32")
    memory.append([state, action, float(following[0]), following, 1.0])
    state, epsilon = following, max(0.2, epsilon * 0.95)
    if len(memory) >= 10:
        weights = np.array([m[4] for m in memory])
        picks = np.random.choice(len(memory), 7, replace=False, p=weights / weights.sum())
        before, after = (np.stack([memory[i][part] for i in picks]) for part in (0, 3))
        goals = online.predict_on_batch(before).copy()
        best = target.predict_on_batch(after).max(1)
        for row, pick in enumerate(picks):
            goal = memory[pick][2] + 0.9 * best[row]
            memory[pick][4] = abs(float(goal - goals[row, memory[pick][1]])) + 0.01
            goals[row, memory[pick][1]] = goal
        loss = online.train_on_batch(before, goals)
    if step % 10 == 9:
        target.set_weights([0.5 * a + 0.5 * b for a, b in zip(online.get_weights(), target.get_weights())])
        print(step, f"{float(loss):.5f} {epsilon:.3f} {sum(m[4] for m in memory):.4f}")
