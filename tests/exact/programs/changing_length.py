"""Data whose length differs from pass to pass, weights kept in a dict, and epochs counted by way of a list."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(19)
rng = np.random.default_rng(2)
x = rng.random((40, 3)).astype("float32")
one, two = (tf.data.Dataset.from_tensor_slices((part, part[:, 0])) for part in (x[:17], x[17:]))
mixed = tf.data.Dataset.sample_from_datasets([one, two], [0.4, 0.6], seed=5, stop_on_empty_dataset=True)
kept = mixed.filter(lambda a, b: tf.random.uniform([]) < 0.8).batch(6)
model = tf.keras.Sequential([tf.keras.Input((3,)), tf.keras.layers.Dense(4, activation="tanh", name="hidden"), tf.keras.layers.Dense(1, name="out")])
model.compile(tf.keras.optimizers.SGD(0.1), "mse")
histories, best = [], {}
for _ in range(4):
    histories.append(model.fit(kept, epochs=1, verbose=0))
    losses = [h.history["loss"][0] for h in histories]
    if losses[-1] == min(losses):
        best = {layer.name: [w.copy() for w in layer.get_weights()] for layer in model.layers}
    print(int(model.optimizer.iterations), f"{losses[-1]:.5f}")
for name, weights in best.items():
    model.get_layer(name).set_weights(weights)
print(sum(len(h.epoch) for h in histories), model.predict(x[:2], verbose=0).ravel())
