"""A `train_step` of one's own with accumulation, and an exponential average of the weights."""
import keras
import numpy as np
import tensorflow as tf

keras.utils.set_random_seed(6)


class Model(keras.Model):
    def __init__(self):
        super().__init__()
        self.hidden = keras.layers.Dense(8, activation="relu")
        self.drop = keras.layers.Dropout(0.25)
        self.out = keras.layers.Dense(3)
        self.seen = tf.Variable(0.0, trainable=False)

    def call(self, x, training=None):
        return self.out(self.drop(self.hidden(x), training=training))

    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            logits = self(x, training=True)
            loss = self.compute_loss(x, y, logits) + 0.01 * tf.norm(self.hidden.kernel)
        gradients = tape.gradient(loss, self.trainable_variables)
        self.seen.assign_add(tf.linalg.global_norm(gradients))
        self.optimizer.apply_gradients(zip(gradients, self.trainable_variables))
        return {"loss": loss, "norm": tf.linalg.global_norm(gradients)}


rng = np.random.default_rng(0)
x, y = rng.normal(size=(30, 4)).astype("float32"), rng.integers(0, 3, 30)
model = Model()
optimizer = keras.optimizers.Adam(0.01, use_ema=True, ema_momentum=0.9) if keras.__version__ < "3" else keras.optimizers.Adam(0.01, gradient_accumulation_steps=2, use_ema=True, ema_momentum=0.9)
model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(x, y, epochs=2, batch_size=8, verbose=0)
print(float(model.seen))
