"""REINFORCE: one state at a time to act, all states of an episode to learn; returns normalised by hand."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(24)
rng = np.random.default_rng(3)
policy = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(8, activation="tanh"), tf.keras.layers.Dense(3)])
optimizer = tf.keras.optimizers.Adam(0.02)
for episode in range(4):
    state, states, actions, rewards = rng.normal(size=2).astype("float32"), [], [], []
    for _ in range(9 + episode):
        logits = policy(state[None], training=False)
        action = int(tf.random.categorical(logits, 1)[0, 0])
        if rng.random() < 0.1:
            action = int(np.random.choice(3))
        states.append(state)
        actions.append(action)
        state = (0.9 * state + 0.3 * (action - 1)).astype("float32")
        rewards.append(-float(np.abs(state).sum()))
    returns = np.cumsum(rewards[::-1])[::-1]
    returns = ((returns - returns.mean()) / (returns.std() + 1e-6)).astype("float32")
    with tf.GradientTape() as tape:
        chosen = tf.nn.sparse_softmax_cross_entropy_with_logits(actions, policy(np.stack(states), training=True))
        loss = tf.reduce_sum(chosen * returns)
    optimizer.apply_gradients(zip(tape.gradient(loss, policy.trainable_variables), policy.trainable_variables))
    print(episode, f"{sum(rewards):.4f} {float(loss):.4f}")
