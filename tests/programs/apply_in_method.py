# expect: HVD101 HVD301 HVD701 HVD801 HVD803
# Not run: a fragment
import tensorflow as tf

x, y = load()

class Trainer:
    def __init__(self, model):
        self.model = model
        self.optimizer = tf.keras.optimizers.Adam()

    @tf.function
    def step(self, images, labels):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(labels - self.model(images)))
        variables = self.model.trainable_variables
        grads = tape.gradient(loss, variables)
        self.optimizer.apply_gradients(zip(grads, variables))
        return loss

    def train(self, dataset):
        for images, labels in dataset:
            loss = self.step(images, labels)
        return loss


dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1000).batch(32)
trainer = Trainer(tf.keras.Sequential([tf.keras.layers.Dense(1)]))
trainer.train(dataset)
