"""Folds: a function trains each of them by a loop of its own, with early stopping, and the scores are averaged."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(26)
x = np.random.rand(60, 3).astype("float32")
y = x.sum(1)


def train_fold(train, test, batch_size=5, epochs=6, patience=2):
    model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(4, activation="relu"), tf.keras.layers.Dense(1)])
    optimizer = tf.keras.optimizers.Adam(0.02)
    best, waited = float("inf"), 0
    for epoch in range(epochs):
        for start in range(0, len(train), batch_size):
            rows = train[start : start + batch_size]
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean((model(x[rows], training=True)[:, 0] - y[rows]) ** 2)
            optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        score = float(tf.reduce_mean((model(x[test])[:, 0] - y[test]) ** 2))
        waited = 0 if score < best else waited + 1
        best = min(best, score)
        if waited == patience:
            break
    return best


folds = np.array_split(np.random.permutation(60), 3)
scores = []
for number, test in enumerate(folds):
    train = np.concatenate([fold for other, fold in enumerate(folds) if other != number])
    scores.append(train_fold(train, test))
print([round(score, 6) for score in scores], f"{np.mean(scores):.6f}")
