# expect: HVD101 HVD301 HVD701 HVD801 HVD803
"""two models, two optimizers, one step, checkpoints by a manager"""

import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(200, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

def net(units):
    return tf.keras.Sequential([tf.keras.layers.Dense(16, activation="relu"), tf.keras.layers.Dense(units)])


g, d = net(8), net(1)
g_opt, d_opt = tf.keras.optimizers.Adam(1e-3, beta_1=0.5), tf.keras.optimizers.Adam(2e-3, beta_1=0.5)
bce = tf.keras.losses.BinaryCrossentropy(from_logits=True)
ckpt = tf.train.Checkpoint(g=g, d=d, g_opt=g_opt, d_opt=d_opt)
manager = tf.train.CheckpointManager(ckpt, "ckpts", max_to_keep=2)
data = tf.data.Dataset.from_tensor_slices(x).shuffle(200).batch(20)


@tf.function
def step(real):
    noise = tf.random.normal((20, 4))
    with tf.GradientTape() as g_tape, tf.GradientTape() as d_tape:
        fake = g(noise, training=True)
        real_out, fake_out = d(real, training=True), d(fake, training=True)
        g_loss = bce(tf.ones_like(fake_out), fake_out)
        d_loss = bce(tf.ones_like(real_out), real_out) + bce(tf.zeros_like(fake_out), fake_out)
    g_opt.apply_gradients(zip(g_tape.gradient(g_loss, g.trainable_variables), g.trainable_variables))
    d_opt.apply_gradients(zip(d_tape.gradient(d_loss, d.trainable_variables), d.trainable_variables))
    return g_loss, d_loss


for epoch in range(2):
    for batch in data:
        losses = step(batch)
    manager.save()
    print(epoch, [float(loss) for loss in losses])
