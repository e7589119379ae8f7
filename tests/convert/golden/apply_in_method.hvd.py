import tensorflow as tf
import horovod.tensorflow as hvd
import jupyter_hvd.runtime as jhvd
jhvd.start()  # Horovod, added by jupyter hvd: one process per rank, each with a GPU of its own

x, y = load()

class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = tf.keras.optimizers.Adam(learning_rate=0.001 * hvd.size())

    @tf.function
    def step(self, images, labels):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(labels - self.model(images)))
        tape = jhvd.DistributedGradientTape(tape)
        variables = self.model.trainable_variables
        grads = tape.gradient(loss, variables)
        self.optimizer.apply_gradients(zip(grads, variables))
        return loss

    def train(self, dataset):
        for images, labels in dataset:
            loss = self.step(images, labels)
            jhvd.broadcast_once(self.optimizer, self.model)
        return loss


dataset = tf.data.Dataset.from_tensor_slices((x, y)).shard(hvd.size(), hvd.rank()).shuffle(1000).batch(32).apply(jhvd.equal_steps)
trainer = Trainer(tf.keras.Sequential([tf.keras.layers.Dense(1)]))
trainer.train(dataset)
