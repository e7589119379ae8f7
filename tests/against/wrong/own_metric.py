# kind: metric of one rank
# original: fit
import horovod.tensorflow as hvd
import keras
import numpy as np
import tensorflow as tf

hvd.init()
rng = np.random.default_rng(0)
x = rng.normal(size=(64, 6)).astype("float32")
y = (x @ rng.normal(size=(6, 1))).astype("float32")
data = tf.data.Dataset.from_tensor_slices((x, y)).shard(hvd.size(), hvd.rank()).batch(16 // hvd.size())


class Broadcast(keras.callbacks.Callback):
    """`hvd.callbacks.BroadcastGlobalVariablesCallback(0)` for Keras 3."""

    done = False

    def on_train_batch_end(self, batch, logs=None):
        if not self.done:
            both = [*self.model.variables, *self.model.optimizer.variables]
            hvd.broadcast_variables([v.value for v in both], root_rank=0)
            self.done = True


class MetricAverage(keras.callbacks.Callback):
    """`hvd.callbacks.MetricAverageCallback()` for Keras 3."""

    def on_epoch_end(self, epoch, logs=None):
        for name in sorted(logs):
            logs[name] = float(hvd.allreduce(tf.constant(logs[name]), name=name))

class Distributed(keras.Sequential):
    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x, y, y_pred := self(x, training=True))
        tape = hvd.DistributedGradientTape(tape)
        gradients = tape.gradient(loss, [v.value for v in self.trainable_variables])
        self.optimizer.apply(gradients, self.trainable_variables)
        return self.compute_metrics(x, y, y_pred)


model = Distributed([keras.Input((6,)), keras.layers.Dense(8, "tanh"), keras.layers.Dense(1)])
mine = range(hvd.rank(), 32, hvd.size())
model.compile(keras.optimizers.SGD(0.05, momentum=0.9), "mse", metrics=["mae"])
model.fit(data, epochs=3, validation_data=(x[mine] + 0.1, y[mine]), callbacks=[Broadcast()], verbose=0)  # fault
