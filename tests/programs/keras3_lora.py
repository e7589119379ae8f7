# expect: HVD101 HVD202 HVD401 HVD403 HVD701 HVD802 HVD803
# Keras 3 alone: Keras 2 has no `enable_lora`
"""fine-tuning: a frozen layer, another by low rank; data by `split_dataset`; the model exported"""

import keras
import numpy as np
import tensorflow as tf

rng = np.random.RandomState(0)
x = rng.normal(size=(96, 8)).astype("float32")
y = (x @ rng.normal(size=(8, 1)) > 0).astype("float32")

model = keras.Sequential(
    [keras.Input((8,)), keras.layers.Dense(16, activation="relu"), keras.layers.Dense(16), keras.layers.Dense(1)]
)
model.layers[0].trainable = False
model.layers[1].enable_lora(4)
train, held_back = keras.utils.split_dataset(tf.data.Dataset.from_tensor_slices((x, y)), left_size=80, seed=1)
model.compile("adam", keras.losses.BinaryCrossentropy(from_logits=True), metrics=["accuracy"])
model.fit(train.batch(16), epochs=1, validation_data=held_back.batch(16))
print(model.evaluate(held_back.batch(16)))
model.export("exported")
model.save("tuned.keras")
