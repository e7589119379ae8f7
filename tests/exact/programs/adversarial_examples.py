"""Virtual adversarial training: gradients for inputs within a training step, `stop_gradient`, a KL divergence."""
import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(30)
x = np.random.rand(25, 4).astype("float32")
y = np.arange(25) % 3


class Virtual(keras.Model):
    def __init__(self):
        super().__init__()
        self.hidden, self.out = keras.layers.Dense(8, activation="relu"), keras.layers.Dense(3)
        self.drop = keras.layers.Dropout(0.1)

    def call(self, x, training=False):
        return self.out(self.drop(self.hidden(x), training=training))

    def train_step(self, data):
        x, y = data
        clean = tf.stop_gradient(self(x, training=False))
        d = tf.math.l2_normalize(tf.random.normal(tf.shape(x)), 1)
        with tf.GradientTape() as inner:
            inner.watch(d)
            apart = tf.reduce_mean(keras.losses.kl_divergence(tf.nn.softmax(clean), tf.nn.softmax(self(x + 0.1 * d, training=False))))
        d = tf.math.l2_normalize(tf.stop_gradient(inner.gradient(apart, d)), 1)
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x, y, self(x, training=True))
            far = keras.losses.kl_divergence(tf.nn.softmax(clean), tf.nn.softmax(self(x + 0.5 * d, training=True)))
            loss += tf.reduce_mean(far)
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return {"total": loss}


model = Virtual()
model.compile(keras.optimizers.Adam(0.01), keras.losses.SparseCategoricalCrossentropy(from_logits=True))
print(model.fit(x, y, batch_size=6, epochs=3, verbose=0).history)
