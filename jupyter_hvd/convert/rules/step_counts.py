"""HVD804: step counts follow the scaled batch."""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.scale_edits import changes_nothing, edit_around
from ...analysis.scale_exponents import Coercion
from ...source.edits import Layer
from .base import Example, Finding, Fix, Problem, program
from .context import Context, Rule


class ScaleSteps(Rule):
    """Convert the numbers that count steps.

    - A number of steps is divided by N: in `steps_per_epoch`, in the range of a loop, in `if step % 100 == 0`, as a warm-up or a patience counted in steps,
      as milestones in a list or a dictionary.
    - A counter that is divided by such a number, or compared with it, is multiplied instead: `step * N / 500`. This needs no rounding.
    - A factor that is applied once per step, `epsilon *= 0.99`, is raised to the power of N.

    Each number is converted once, where it is defined, or where a library takes it in another unit.

    Why:
    Batches are N times as large, so an epoch has an N-th of the steps. Each number is found by its unit: at the same number of examples seen it is
    N ** k times that of one process, with k = -1 for steps and 0 for epochs, evaluations and ratios. `jupyter hvd explain` shows the units.

    Known problems:
    - A divided number is rounded down, and is at least 1. At 4 ranks, `step % 10 == 0` becomes `step % 2 == 0`: every 8 old steps.
    - A number that may depend on steps, and whose unit is not determined, is left as it is, with a note. So are numbers by which a variable is computed
      from its last value in a form that is not known, and numbers that a library takes under a name such as `every`.
    - If a print computes rows from steps with the batch size written again, `step * 32`, this number is not multiplied.

    When it does not apply:
    With `--batch global`; where no batch grows; to numbers of epochs, evaluations and rows.
    """

    code = "HVD804"
    name = "step counts"
    rationale = "N ranks take an N-th of the steps for as many examples, so what counts steps is divided by N."
    batches = ("per-rank",)
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                class WarmUp(tf.keras.callbacks.Callback):
                    step = 0

                    def on_train_batch_end(self, batch, logs=None):
                        self.step += 1
                        self.model.optimizer.learning_rate = 0.01 * min(1.0, self.step / 500)

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile(tf.keras.optimizers.Adam(), loss='mse')
                model.fit(x, y, batch_size=32, callbacks=[WarmUp()])
                """
            ),
            program(
                """
                import tensorflow as tf

                class WarmUp(tf.keras.callbacks.Callback):
                    step = 0

                    def on_train_batch_end(self, batch, logs=None):
                        self.step += 1
                        self.model.optimizer.learning_rate = 0.01 * min(1.0, self.step * hvd.size() / 500)

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile(tf.keras.optimizers.Adam(), loss='mse')
                model.fit(x, y, batch_size=32, callbacks=[WarmUp()])
                """
            ),
            ignore=("HVD801", "HVD803"),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        if not context.batch_sizes.grown:
            return
        sizes = context.scales.sizes_read
        for coercion in context.scales.coercions:
            if coercion.node in sizes or changes_nothing(coercion):
                continue
            before, after = edit_around(
                coercion.node,
                context.module.parent(coercion.node),
                coercion,
                context.backend.size,
            )
            edits = context.convert_number(coercion.node, before, after, Layer.COUNT)
            yield Fix(
                coercion.node,
                edits,
                explain_converted_number(context.module.text(coercion.node), coercion),
            )
        for unscaled in context.scales.unscaled:
            yield Problem(unscaled.node, unscaled.message, unscaled.help, "info")


def explain_converted_number(text: str, coercion: Coercion) -> str:
    """Return the reason for converting a number, with the number before and after."""
    if coercion.kind == "repeated":
        return (
            f"{text} → {text} ** ranks: {coercion.reason}, and a step of N ranks stands for N steps"
        )
    if coercion.kind == "rest":
        return (
            f"{text} → 1 - (1 - {text}) ** ranks: {coercion.reason}, "
            "and a step of N ranks stands for N steps of the average"
        )
    if coercion.power == -1:
        text = f"the keys of {text}" if coercion.kind == "keys" else text
        is_many = coercion.kind in ("list", "keys")
        way = "up" if is_many else "down to at least 1"
        rounded = f", rounded {way}" if coercion.is_whole else ""
        return f"{text} → {text} / ranks{rounded}: it counts steps ({coercion.reason}), of which N ranks take 1/N"
    if coercion.power == 1:
        return f"{text} → {text} × ranks: {coercion.reason}, in the unit of one process"
    return f"{text} → {text} × ranks ** {coercion.power}: {coercion.reason}"
