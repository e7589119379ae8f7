"""Sequences with time first, cells stepped by hand, a bidirectional GRU, `TimeDistributed`, and teacher forcing."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(28)
L = tf.keras.layers
x = np.random.default_rng(5).normal(size=(15, 6, 3)).astype("float32")
cell, out = L.GRUCell(5), L.Dense(1)
optimizer = tf.keras.optimizers.Adam(0.02)
for epoch in range(2):
    for start in range(0, 15, 6):
        rows = x[start : start + 6]
        with tf.GradientTape() as tape:
            state, losses = tf.zeros((len(rows), 5)), []
            for t in range(5):
                h, state = cell(rows[:, t], [state])
                state = state[0] if isinstance(state, list) else state
                losses.append(tf.reduce_mean((out(h)[:, 0] - rows[:, t + 1, 0]) ** 2))
            loss = tf.add_n(losses)
        variables = cell.trainable_variables + out.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
    print(epoch, f"{float(loss):.5f}")
dense = L.Dense(4)
first = tf.transpose(x, [1, 0, 2])
print(f"{float(tf.reduce_sum(dense(first) ** 2)):.5f}")
model = tf.keras.Sequential([L.Input((6, 3)), L.Bidirectional(L.GRU(4, return_sequences=True, dropout=0.1)), L.TimeDistributed(L.Dense(2)), L.Flatten(), L.Dense(1)])
model.compile("adam", "mse")
model.fit(x, x[:, 0, 0], batch_size=4, epochs=2, verbose=0)
print(model.predict(x[:3], verbose=0).ravel())
