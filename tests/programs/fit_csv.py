# expect: HVD101 HVD202 HVD401 HVD403 HVD701 HVD802 HVD803
"""a table read and shuffled by the source, without a count"""

import tensorflow as tf

train = tf.data.experimental.make_csv_dataset("table.csv", batch_size=16, label_name="label", num_epochs=1)
train = train.map(lambda columns, label: (tf.stack([tf.cast(column, tf.float32) for column in columns.values()], axis=1), label))
model = tf.keras.Sequential([tf.keras.layers.Dense(8, activation="relu"), tf.keras.layers.Dense(1)])
model.compile("adam", "mse")
model.fit(train, epochs=1)
