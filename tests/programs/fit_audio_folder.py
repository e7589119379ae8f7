# expect: HVD101 HVD202 HVD401 HVD403 HVD701 HVD802 HVD803
"""folders of sounds, both parts of a split at once, shuffled twice; a layer adapted to what training sees"""

import tensorflow as tf

train, test = tf.keras.utils.audio_dataset_from_directory(
    directory="sounds", batch_size=8, validation_split=0.25, seed=0, output_sequence_length=64, subset="both"
)


def squeeze(sound, label):
    return tf.squeeze(sound, axis=-1), label


train = train.map(squeeze).cache().shuffle(1000).prefetch(tf.data.AUTOTUNE)
norm = tf.keras.layers.Normalization()
norm.adapt(data=train.map(map_func=lambda sound, label: sound))
model = tf.keras.Sequential([norm, tf.keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(train, validation_data=test.map(squeeze), epochs=1)
