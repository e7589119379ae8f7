"""Outputs with large rows: vocabularies and masks of images, with weights and masks, losses by rows and others, in `fit` and in a step."""
import keras
import numpy as np
import tensorflow as tf
from keras import layers, losses, metrics

keras.utils.set_random_seed(41)
rng = np.random.default_rng(9)
words, length = 1100, 3
tokens = rng.integers(1, 60, (22, length + 1))
tokens[::3, 2:] = 0


def language(mask):
    return keras.Sequential([keras.Input((length,), dtype="int32"), layers.Embedding(60, 4, mask_zero=mask), layers.Dropout(0.1), layers.Dense(words)])


def show(history):
    for name in sorted(history.history):
        print(name, [round(value, 5) for value in history.history[name]])


x, y = tokens[:, :-1], tokens[:, 1:]
model = language(mask=True)
model.compile(keras.optimizers.Adam(0.02), losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy", metrics.SparseTopKCategoricalAccuracy(3)], weighted_metrics=[metrics.SparseCategoricalCrossentropy(from_logits=True)])
show(model.fit(x, y, batch_size=7, epochs=1, sample_weight=rng.random((22, 1)).astype("float32"), validation_split=0.3, verbose=0))

images = rng.random((14, 36, 36, 1)).astype("float32")
masks = (images > 0.6).astype("float32")
for loss in (
    losses.BinaryCrossentropy(),
    losses.MeanSquaredError(reduction="sum"),
    losses.Dice(),
):
    model = keras.Sequential([keras.Input((36, 36, 1)), layers.Conv2D(2, 3, padding="same", use_bias=False), layers.BatchNormalization(), layers.Conv2D(1, 1, activation="sigmoid")])
    model.compile(keras.optimizers.SGD(0.02), loss, metrics=["mae", metrics.BinaryAccuracy(), metrics.BinaryIoU(), lambda a, b: tf.reduce_max(tf.abs(a - b))])
    weight = rng.random((14, 36, 1)).astype("float32") if loss.reduction != "sum" and loss.name != "dice" else None
    show(model.fit(images, masks, batch_size=5, epochs=1, sample_weight=weight, verbose=0))

model, optimizer = language(mask=False), keras.optimizers.Adam(0.02)
own = losses.SparseCategoricalCrossentropy(from_logits=True)


@tf.function
def step(x, y):
    with tf.GradientTape(persistent=True) as tape:
        logits = model(x, training=True)
        by_row = tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits)
        loss = tf.reduce_max(by_row) + own(y, logits) + 0.1 * tf.reduce_mean(logits[:, :, :5] ** 2)
    optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    slopes = tape.gradient(loss, logits)
    return loss, tf.norm(slopes), tf.reduce_sum(tf.abs(slopes))


@tf.function
def slopes_of(x, y):
    logits = model(x)
    wide = tf.identity(logits)
    with tf.GradientTape() as tape:
        tape.watch(wide)
        loss = own(y, wide)
    return tf.norm(tape.gradient(loss, wide))


data = tf.data.Dataset.from_tensor_slices((x.astype("int32"), y.astype("int32")))
for batch in data.batch(8):
    print([f"{float(value):.5f}" for value in step(*batch)], f"{float(slopes_of(*batch)):.5f}")
