# expect: HVD101 HVD202 HVD401 HVD403 HVD601 HVD701 HVD801 HVD803
"""an endless dataset with `steps_per_epoch`, augmented, pictures shown by a callback"""

import numpy as np
import tensorflow as tf
x = np.random.RandomState(0).normal(size=(100, 8)).astype("float32")
TRAIN_LENGTH, BATCH_SIZE, BUFFER_SIZE = 100, 10, 50
STEPS_PER_EPOCH = TRAIN_LENGTH // BATCH_SIZE
train_images = tf.data.Dataset.from_tensor_slices((x, x)).map(lambda a, b: (a, b))
test_images = tf.data.Dataset.from_tensor_slices((x, x))

class Augment(tf.keras.layers.Layer):
    def __init__(self, seed=42):
        super().__init__()
        self.augment_inputs = tf.keras.layers.GaussianNoise(0.1, seed=seed)
    def call(self, inputs, labels):
        return self.augment_inputs(inputs), labels

train_batches = (
    train_images
    .cache()
    .shuffle(BUFFER_SIZE)
    .batch(BATCH_SIZE)
    .repeat()
    .map(Augment())
    .prefetch(buffer_size=tf.data.AUTOTUNE))
test_batches = test_images.batch(BATCH_SIZE)
model = tf.keras.Sequential([tf.keras.layers.Dense(8)])
model.compile(optimizer='adam', loss='mse', metrics=['mae'])

class DisplayCallback(tf.keras.callbacks.Callback):
    def on_epoch_end(self, epoch, logs=None):
        print('\nSample Prediction after epoch {}\n'.format(epoch+1))

EPOCHS = 2
VALIDATION_STEPS = 100 // BATCH_SIZE // 5
model_history = model.fit(train_batches, epochs=EPOCHS, steps_per_epoch=STEPS_PER_EPOCH, validation_steps=VALIDATION_STEPS, validation_data=test_batches, callbacks=[DisplayCallback()])
loss = model_history.history['loss']
