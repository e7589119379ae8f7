import tensorflow as tf
import horovod.tensorflow as hvd

# Horovod, added by jupyter hvd: one process per rank, each with a GPU of its own
assert getattr(tf.keras, '__version__', '2') < '3', 'Horovod does not average gradients in Keras 3: install tf-keras and set TF_USE_LEGACY_KERAS=1'
hvd.init()
gpus = tf.config.list_physical_devices('GPU')
for gpu in gpus:
    tf.config.experimental.set_memory_growth(gpu, True)
if gpus:
    tf.config.set_visible_devices(gpus[hvd.local_rank()], 'GPU')


def hvd_equal_steps(dataset):
    # As many batches on every rank: none may wait for one that has finished.
    steps = dataset.cardinality()
    if hvd.size() == 1 or steps == tf.data.INFINITE_CARDINALITY:
        return dataset
    if steps == tf.data.UNKNOWN_CARDINALITY:
        steps = dataset.reduce(tf.constant(0, tf.int64), lambda count, *_: count + 1)
    least = int(min(hvd.allgather([int(steps)])))
    return dataset if least == steps else dataset.take(least)

x, y = load()

class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = tf.keras.optimizers.Adam(learning_rate=0.001 * hvd.size())

    @tf.function
    def step(self, images, labels):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(labels - self.model(images)))
        tape = hvd.DistributedGradientTape(tape)
        variables = self.model.trainable_variables
        grads = tape.gradient(loss, variables)
        self.optimizer.apply_gradients(zip(grads, variables))
        return loss

    def train(self, dataset):
        for images, labels in dataset:
            loss = self.step(images, labels)
            if not hasattr(self.optimizer, 'hvd_broadcast_done'):
                hvd.broadcast_variables(self.model.variables, root_rank=0)
                hvd.broadcast_variables(self.optimizer.variables(), root_rank=0)
                self.optimizer.hvd_broadcast_done = True
        return loss


dataset = tf.data.Dataset.from_tensor_slices((x, y)).shard(hvd.size(), hvd.rank()).shuffle(1000).batch(32).apply(hvd_equal_steps)
trainer = Trainer(tf.keras.Sequential([tf.keras.layers.Dense(1)]))
trainer.train(dataset)
