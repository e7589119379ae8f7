"""HVD403: `fit` draws its progress on rank 0 only."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from ...source.edits import Layer
from ..tensorflow.keras_loops import find_fit_argument
from .base import Example, Finding, Fix, program
from .context import HOROVOD, Context, Rule


class Verbose(Rule):
    """Show the progress of `fit` on rank 0 only.

    `verbose` becomes `1 if hvd.rank() == 0 else 0`. A value that the program gives stays the value on rank 0.

    Why:
    The output of the other ranks is discarded, so they need not produce it.

    Known problems:
    None. Without this change the output is the same.

    When it does not apply:
    With `--batch global`; to `fit` with arguments in `*` or `**`; where `verbose` is 0 or computed.
    """

    code = "HVD403"
    name = "progress on rank 0"
    rationale = "Draw the progress bar on rank 0 only; the output of other ranks is not shown."
    batches = ("per-rank",)
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(x, y)
                model.fit(x, y, verbose=2)
                """
            ),
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile('sgd', loss='mse')
                model.fit(x, y, verbose=1 if hvd.rank() == 0 else 0)
                model.fit(x, y, verbose=2 if hvd.rank() == 0 else 0)
                """
            ),
        ),
    )

    def find(self, context: Context) -> Iterator[Finding]:
        choice = f" if {context.backend.is_rank_zero} else 0"
        for call in context.training.keras.shown_fits:
            arg = find_fit_argument(call, "verbose")
            if arg is None:
                edit = context.add_keyword(call, f"verbose=1{choice}", Layer.VERBOSE)
                yield Fix(call, (edit,), needs=(HOROVOD,))
            elif isinstance(arg.value, cst.Integer | cst.SimpleString) and arg.value.value != "0":
                edit = context.insert_behind(arg.value, choice, Layer.CHOICE)
                yield Fix(arg.value, (edit,), needs=(HOROVOD,))
