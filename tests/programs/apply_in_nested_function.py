# expect: HVD101 HVD301 HVD701 HVD801 HVD803
# Not run: a fragment
import tensorflow as tf

x, y = load()

def train(model, opt, dataset, epochs):
    """Train for some epochs."""
    @tf.function
    def step(images, labels):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(labels - model(images)))
        grads = tape.gradient(loss, model.trainable_variables)
        opt.apply_gradients(zip(grads, model.trainable_variables))
        return loss

    for epoch in range(epochs):
        for images, labels in dataset: step(images, labels)


dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1000).batch(32)
train(tf.keras.Sequential([tf.keras.layers.Dense(1)]), tf.keras.optimizers.SGD(), dataset, 3)
