import { notebook } from './lab';

export const IMPORTS = 'import numpy as np\nimport tensorflow as tf';

export const MODEL = `\
model = tf.keras.Sequential([
    tf.keras.Input(shape=(28, 28, 1)),
    tf.keras.layers.Conv2D(32, 3, activation="relu"),
    tf.keras.layers.MaxPooling2D(),
    tf.keras.layers.Flatten(),
    tf.keras.layers.Dense(128, activation="relu"),
    tf.keras.layers.Dense(10),
])
loss_object = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
optimizer = tf.keras.optimizers.Adam(1e-3)`;

export const DATA = `\
images = np.linspace(0, 1, 256 * 784, dtype="float32").reshape(256, 28, 28, 1)
labels = np.arange(256) % 10
dataset = tf.data.Dataset.from_tensor_slices((images, labels)).batch(16)`;

export const STEP = `\
@tf.function
def train_step(images, labels):
    with tf.GradientTape() as tape:
        predictions = model(images, training=True)
        loss = loss_object(labels, predictions)
    gradients = tape.gradient(loss, model.trainable_variables)
    optimizer.apply_gradients(zip(gradients, model.trainable_variables))
    return loss`;

export const LOOP = `\
for epoch in range(2):
    for images, labels in dataset:
        loss = train_step(images, labels)
    print(f"epoch {epoch}: loss {float(loss):.3f}")`;

/** A small classifier with its own training loop. */
export const CLASSIFIER = notebook(
  '# Handwritten digits\n\nA small convolutional network, trained by a loop of its own.',
  IMPORTS,
  '## Data\n\nImages with a label each.',
  DATA,
  '## Model\n\nTwo dense layers on top of one **convolution**.',
  MODEL,
  '## Training',
  STEP,
  LOOP
);

/** The same data, given to Keras' own loop. */
export const FITTED = notebook(
  IMPORTS,
  DATA,
  MODEL,
  'model.compile(optimizer, loss_object)\nmodel.fit(dataset, epochs=4)'
);

/** A notebook of some 300 cells, 290 of which print. */
export const MANY_CHANGES = notebook(
  IMPORTS,
  ...FITTED.cells.slice(1).map(cell => cell.source),
  ...Array.from(
    { length: 290 },
    (_, i) => `result_${i} = ${i}\nprint("step ${i}", result_${i})`
  )
);

/** Distributed already, in another way. */
export const DISTRIBUTED = notebook(
  '# Two machines',
  'import tensorflow as tf',
  `\
strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")`,
  'model.fit([[1.0]], [[1.0]])'
);
