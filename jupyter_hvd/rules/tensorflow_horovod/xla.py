"""HVD3, continued: XLA, which cannot hold what ranks exchange."""

from __future__ import annotations

from collections.abc import Iterator

from ..base import Example, Finding, Fix, program
from .context import Context, Rule


class WithoutXla(Rule):
    """Compile steps that average without XLA.

    Only the functions that an average is taken in are changed, and those that call them: a forward pass that XLA compiles
    by itself stays so. What `compile(jit_compile=True)` asks of Keras, the callback of HVD401 takes back.
    """

    code = "HVD306"
    name = "steps that XLA compiles"
    rationale = (
        "XLA cannot hold what ranks exchange, so TensorFlow compiles this step in its own way."
    )
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                opt = tf.keras.optimizers.Adam(1e-3)
                dataset = tf.data.Dataset.from_tensor_slices(data).batch(32)

                @tf.function(jit_compile=True)
                def predict(x):
                    return model(x, training=True)

                @tf.function(jit_compile=True)
                def step(x, y):
                    with tf.GradientTape() as tape:
                        loss = tf.reduce_mean(tf.square(y - predict(x)))
                    grads = tape.gradient(loss, model.trainable_variables)
                    opt.apply_gradients(zip(grads, model.trainable_variables))

                for x, y in dataset:
                    step(x, y)
                """
            ),
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                opt = tf.keras.optimizers.Adam(1e-3)
                dataset = tf.data.Dataset.from_tensor_slices(data).batch(32)

                @tf.function(jit_compile=True)
                def predict(x):
                    return model(x, training=True)

                @tf.function(jit_compile=False)
                def step(x, y):
                    with tf.GradientTape() as tape:
                        loss = tf.reduce_mean(tf.square(y - predict(x)))
                    grads = tape.gradient(loss, model.trainable_variables)
                    opt.apply_gradients(zip(grads, model.trainable_variables))

                for x, y in dataset:
                    step(x, y)
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        compiled = context.training.compiled
        averages = {
            *context.training.training_gradients,
            *(update.call for update, _ in context.training.own_updates),
            *context.alike.compiled,
        }
        inside = frozenset().union(*(compiled.running(call) for call in averages))
        for function, argument in compiled.by_xla:
            if function in inside:
                yield Fix(argument, (context.replace(argument.value, "False"),), needs=())


RULES: tuple[type[Rule], ...] = (WithoutXla,)
