# expect: HVD101 HVD301 HVD601 HVD701 HVD802 HVD803 HVD804
"""`repeat().take(steps).enumerate()`, with checkpoints and summaries at some of the steps"""

import time
import numpy as np
import tensorflow as tf
x = np.random.RandomState(0).normal(size=(100, 8)).astype("float32")
train_dataset = tf.data.Dataset.from_tensor_slices((x, x))
train_dataset = train_dataset.map(lambda a, b: (a, b), num_parallel_calls=tf.data.AUTOTUNE)
train_dataset = train_dataset.shuffle(400)
train_dataset = train_dataset.batch(10)
test_dataset = tf.data.Dataset.from_tensor_slices((x, x)).batch(10)
generator = tf.keras.Sequential([tf.keras.layers.Dense(8)])
generator_optimizer = tf.keras.optimizers.Adam(2e-4, beta_1=0.5)
checkpoint = tf.train.Checkpoint(generator_optimizer=generator_optimizer, generator=generator)
summary_writer = tf.summary.create_file_writer("logs/fit")

@tf.function
def train_step(input_image, target, step):
    with tf.GradientTape() as gen_tape:
        gen_output = generator(input_image, training=True)
        loss = tf.reduce_mean(tf.abs(gen_output - target))
    generator_gradients = gen_tape.gradient(loss, generator.trainable_variables)
    generator_optimizer.apply_gradients(zip(generator_gradients, generator.trainable_variables))
    with summary_writer.as_default():
        tf.summary.scalar('loss', loss, step=step // 1000)

def generate_images(model, test_input, tar):
    prediction = model(test_input, training=True)
    print(float(tf.reduce_mean(prediction)))

def fit(train_ds, test_ds, steps):
    example_input, example_target = next(iter(test_ds.take(1)))
    start = time.time()
    for step, (input_image, target) in train_ds.repeat().take(steps).enumerate():
        if (step) % 10 == 0:
            if step != 0:
                print(f'Time taken for 1000 steps: {time.time()-start:.2f} sec\n')
            start = time.time()
            generate_images(generator, example_input, example_target)
            print(f"Step: {step//1000}k")
        train_step(input_image, target, step)
        if (step+1) % 10 == 0:
            print('.', end='', flush=True)
        if (step + 1) % 20 == 0:
            checkpoint.save(file_prefix="ckpt/ckpt")

fit(train_dataset, test_dataset, steps=40)
