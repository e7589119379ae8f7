"""Models that nothing trains, though what is trained depends on them, are the same on all ranks."""

from __future__ import annotations

import pytest

from jupyter_hvd import convert_source
from jupyter_hvd.rules.base import program

HEAD = program(
    """
    import tensorflow as tf

    head = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    encoder = tf.keras.Sequential([tf.keras.layers.Dense(8)])
    opt = tf.keras.optimizers.SGD(0.1)
    ds = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)
    """
)
LOOP = program(
    """
    for bx, by in ds:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((head(encoder(bx)) - by) ** 2)
        grads = tape.gradient(loss, head.trainable_variables)
        opt.apply_gradients(zip(grads, head.trainable_variables))
    """
)
FIT = "head.compile('sgd', 'mse')\n"
TRAINER = program(
    """
    class Trainer:
        def __init__(self):
            self.encoder = tf.keras.layers.Dense(3)
            self.head = head

        def loss(self, bx, by):
            return tf.reduce_mean((self.head(self.encoder(bx)) - by) ** 2)

        @tf.function
        def step(self, bx, by):
            with tf.GradientTape() as tape:
                loss = self.loss(bx, by)
            grads = tape.gradient(loss, self.head.trainable_variables)
            opt.apply_gradients(zip(grads, self.head.trainable_variables))


    trainer = Trainer()
    for bx, by in ds:
        trainer.step(bx, by)
    """
)


def converted(body: str) -> str:
    conversion = convert_source(HEAD + body)
    assert conversion.status == "converted", conversion.diagnostics
    return conversion.code


def test_what_a_loss_goes_through_is_broadcast() -> None:
    assert "broadcast_once(opt, head, encoder)" in converted(LOOP)
    layer = LOOP.replace("head(encoder(bx))", "encoder(head(bx))")
    assert "broadcast_once(opt, head, encoder)" in converted(layer)
    assert "broadcast_once(opt, trainer.head, trainer.encoder)" in converted(TRAINER)


@pytest.mark.parametrize(
    "body",
    [
        LOOP.replace("encoder(bx)", "bx"),
        "flip = tf.keras.Sequential([tf.keras.layers.RandomFlip()])\n"
        + LOOP.replace("encoder", "flip"),
        "known = tf.keras.applications.VGG16()\n" + LOOP.replace("encoder", "known"),
        "both = tf.keras.Sequential([encoder, head])\n"
        + LOOP.replace("head.trainable", "both.trainable"),
    ],
)
def test_what_is_trained_or_begins_alike_is_not_broadcast_beside(body: str) -> None:
    code = converted(body)
    assert "broadcast_once(opt, head)" in code or "broadcast_once(opt, both)" in code


@pytest.mark.parametrize(
    "body",
    [
        FIT + "head.fit(encoder.predict(x), y)\n",
        FIT + "head.fit(x, encoder(x))\n",
        FIT + "head.fit(ds.map(lambda a, b: (encoder(a), b)))\n",
        "target = encoder(x)\n" + LOOP.replace("encoder(bx)", "bx").replace("by)", "target)"),
    ],
)
def test_what_makes_the_data_begins_alike(body: str) -> None:
    assert "jhvd.same_seed()" in converted(body)


def test_an_ordinary_model_draws_as_before() -> None:
    assert "same_seed" not in converted(FIT + "head.fit(x, y)\nencoder.predict(x)\n")


def test_a_student_and_a_teacher_that_one_function_makes() -> None:
    """Each rank's student had learned from a teacher of the rank's own."""
    code = convert_source(
        program(
            """
            import tensorflow as tf

            def net():
                return tf.keras.Sequential([tf.keras.layers.Input((4,)), tf.keras.layers.Dense(3)])

            student, teacher = net(), net()
            opt = tf.keras.optimizers.Adam(1e-3)
            for batch in tf.data.Dataset.from_tensor_slices(x).batch(8):
                with tf.GradientTape() as tape:
                    loss = tf.reduce_mean(tf.square(student(batch) - teacher(batch)))
                grads = tape.gradient(loss, student.trainable_variables)
                opt.apply_gradients(zip(grads, student.trainable_variables))
                for t, s in zip(teacher.variables, student.variables):
                    t.assign(0.99 * t + 0.01 * s)
            """
        )
    ).code
    assert "jhvd.broadcast_once(opt, student, teacher)" in code
