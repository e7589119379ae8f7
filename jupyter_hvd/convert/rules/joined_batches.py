"""HVD802: join consecutive batches whose size the program does not state."""

from __future__ import annotations

from collections.abc import Iterator

from .base import Example, Finding, Fix, program
from .context import RUNTIME, Context, Rule


class JoinBatches(Rule):
    """Join as many consecutive batches as there are ranks.

    Wraps the data in `jhvd.join_batches`. This applies to datasets of other modules, generators and `PyDataset`s whose batch size is not
    seen, and where the program takes or skips a number of batches.

    Why:
    A training step should have N times the rows, and no number in the program says how many rows a batch has.

    Known problems:
    The last joined batch of an epoch has fewer batches in it if N does not divide their number.

    When it does not apply:
    With `--batch global`; where the batch size is seen: HVD801 multiplies it.
    """

    code = "HVD802"
    name = "joined batches"
    rationale = (
        "The batch size was not found, so N batches become one: N ranks train on the rows of N batches "
        "a step, and take 1/N of the steps."
    )
    batches = ("per-rank",)
    examples = (
        Example(
            program(
                """
                import tensorflow as tf
                from data import load_photos

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(load_photos(), epochs=3)
                """
            ),
            program(
                """
                import tensorflow as tf
                from data import load_photos

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(jhvd.join_batches(load_photos()), epochs=3)
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        for batches in context.batch_sizes.joined:
            edits = context.wrap(batches, f"{context.runtime('join_batches')}(", ")")
            yield Fix(batches, edits, needs=(RUNTIME,))
