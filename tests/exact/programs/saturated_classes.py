"""Inputs that nobody has scaled: probabilities are 0 and 1, and losses read the logits that they were computed from."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(23)
L = tf.keras.layers
rng = np.random.default_rng(0)
x, y = rng.integers(0, 256, (21, 30)).astype("float32"), rng.integers(0, 3, 21)


def classifier(*last, **options):
    model = tf.keras.Sequential([L.Input((30,)), L.Dense(8, activation="relu"), *last])
    model.compile(tf.keras.optimizers.SGD(1e-4), **options)
    return model


for model, labels in (
    (classifier(L.Dense(3, activation="softmax"), loss="sparse_categorical_crossentropy"), y),
    (classifier(L.Dense(3), L.Softmax(), loss="categorical_crossentropy"), np.eye(3)[y]),
    (classifier(L.Dense(1, activation="sigmoid"), loss="binary_crossentropy"), y > 1),
    (classifier(L.Dense(1, activation="sigmoid"), loss="binary_crossentropy", run_eagerly=True), y > 1),
):
    history = model.fit(x, labels, batch_size=8, epochs=2, verbose=0)
    print([round(loss, 3) for loss in history.history["loss"]])

model, optimizer = classifier(L.Dense(3, activation="softmax")), tf.keras.optimizers.SGD(1e-4)
for step in range(3):
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(tf.keras.losses.sparse_categorical_crossentropy(y, model(x, training=True)))
    optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
    print(f"{float(loss):.3f}")
