"""HVD301: the tapes whose gradients change weights are marked."""

from __future__ import annotations

from collections.abc import Iterator

from ..tensorflow.tapes import TrainingTape
from .base import Example, Finding, Fix, program
from .context import RUNTIME, Context, Rule


class Tape(Rule):
    """Mark the tapes whose gradients change weights.

    Adds `tape = jhvd.DistributedGradientTape(tape)` below the `with` block of the tape. It returns the same tape.

    Why:
    The ranks average gradients when a tape is asked for them, marked or not. The mark says so to readers who know Horovod. It changes no result.

    Known problems:
    None. The mark can be left out (`--ignore HVD301`). It averages nothing itself, so it does not replace `jhvd.start_shared()`.

    When it does not apply:
    With `--batch global`; to tapes without a name, and to tapes whose gradients are taken inside their block or in another function.
    Gradients for inputs (a gradient penalty, saliency) are not marked.
    """

    code = "HVD301"
    name = "distributed tape"
    rationale = "The gradients of all ranks are averaged here, and are those of the full batch."
    batches = ("per-rank",)
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                opt = tf.keras.optimizers.Adam(1e-3)
                for x, y in tf.data.Dataset.from_tensor_slices(data).batch(32):
                    with tf.GradientTape() as tape:
                        loss = tf.reduce_mean(tf.square(y - model(x)))
                    grads = tape.gradient(loss, model.trainable_variables)
                    opt.apply_gradients(zip(grads, model.trainable_variables))
                """
            ),
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                opt = tf.keras.optimizers.Adam(1e-3)
                for x, y in tf.data.Dataset.from_tensor_slices(data).batch(32):
                    with tf.GradientTape() as tape:
                        loss = tf.reduce_mean(tf.square(y - model(x)))
                    tape = jhvd.DistributedGradientTape(tape)
                    grads = tape.gradient(loss, model.trainable_variables)
                    opt.apply_gradients(zip(grads, model.trainable_variables))
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        for tape in context.training.training_tapes:
            if tape.block is None or tape.name is None or not is_asked_after_block(context, tape):
                continue
            name = tape.name.value
            line = f"{name} = {context.runtime('DistributedGradientTape')}({name})"
            yield Fix(tape.block, (context.after_block(tape.block, line),), needs=(RUNTIME,))


def is_asked_after_block(context: Context, tape: TrainingTape) -> bool:
    """Whether all gradients are taken below the tape's `with` block, in the same function."""
    assert tape.block is not None
    end, function = context.module.span(tape.block).end, context.module.function_of(tape.block)
    return all(
        context.module.function_of(call) is function and context.module.span(call).start > end
        for call in tape.training
    )
