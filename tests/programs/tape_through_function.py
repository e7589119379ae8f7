# expect: HVD101 HVD301 HVD701 HVD801 HVD803
# Not run: a fragment
import tensorflow as tf

x, y = load()
model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
opt = tf.keras.optimizers.Adam(0.01)
dataset = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(1000).batch(32)


def grad(model, inputs, targets):
    with tf.GradientTape() as tape:
        loss_value = tf.reduce_mean(tf.square(targets - model(inputs)))
    return loss_value, tape.gradient(loss_value, model.trainable_variables)


for images, labels in dataset:
    loss_value, grads = grad(model, images, labels)
    opt.apply_gradients(zip(grads, model.trainable_variables))
