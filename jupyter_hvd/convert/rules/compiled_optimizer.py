"""HVD202: the optimizers that models are compiled with are marked."""

from __future__ import annotations

from collections.abc import Iterator

from ...analysis.syntax import argument
from ...source.edits import Layer
from .base import Example, Finding, Fix, program
from .context import RUNTIME, Context, Rule


class Compile(Rule):
    """Mark the optimizers that models are compiled with.

    Wraps the optimizer of each `compile` in `jhvd.DistributedOptimizer`, which returns the same optimizer.

    Why:
    The ranks average gradients before any optimizer sees them. The mark says so to readers who know Horovod. It changes no result.

    Known problems:
    None. The mark can be left out (`--ignore HVD202`). It averages nothing itself, so it does not replace `jhvd.start_shared()`.

    When it does not apply:
    With `--batch global`; to `compile` without an optimizer or with arguments in `*` or `**`; to programs that do not train.
    """

    code = "HVD202"
    name = "distributed optimizer"
    rationale = "This optimizer is given gradients that are averaged over all ranks."
    batches = ("per-rank",)
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                opt = tf.keras.optimizers.Adam(1e-3)
                model.compile(optimizer=opt, loss='mse')
                model.fit(x, y)
                """
            ),
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                opt = tf.keras.optimizers.Adam(1e-3)
                model.compile(optimizer=jhvd.DistributedOptimizer(opt), loss='mse')
                model.fit(x, y)
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        if context.training.loop == "none":
            return
        for call in context.training.keras.compiles:
            optimizer = argument(call, "optimizer", 0)
            if optimizer is not None and not optimizer.star:
                opening = f"{context.runtime('DistributedOptimizer')}("
                edits = context.wrap(optimizer.value, opening, ")", Layer.LIST)
                yield Fix(optimizer.value, edits, needs=(RUNTIME,))
