"""A loop of one's own, each step compiled, with metrics and a host read that ends it."""
import numpy as np
import tensorflow as tf

tf.keras.utils.set_random_seed(7)
L = tf.keras.layers
rng = np.random.default_rng(0)
x = rng.normal(size=(40, 4)).astype("float32")
y = (x[:, 0] * x[:, 1] > 0).astype("int64")
ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(40).batch(12)
model = tf.keras.Sequential([L.Dense(16, activation="relu"), L.Dropout(0.2), L.Dense(2)])
optimizer = tf.keras.optimizers.Adam(tf.keras.optimizers.schedules.ExponentialDecay(0.02, 3, 0.9))
loss_fn = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
seen, accuracy = tf.keras.metrics.Mean(), tf.keras.metrics.SparseCategoricalAccuracy()


@tf.function
def step(x, y):
    with tf.GradientTape() as tape:
        logits = model(x, training=True)
        loss = loss_fn(y, logits)
    gradients, _ = tf.clip_by_global_norm(tape.gradient(loss, model.trainable_variables), 0.5)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    seen.update_state(loss)
    accuracy.update_state(y, logits)


best, bad = 1e9, 0
for epoch in range(8):
    seen.reset_state()
    accuracy.reset_state()
    for batch in ds:
        step(*batch)
    loss = float(seen.result())
    print(epoch, f"{loss:.5f} {float(accuracy.result()):.4f}")
    if loss < best:
        best, bad = loss, 0
    else:
        bad += 1
    if bad or loss < 0.5:
        break
