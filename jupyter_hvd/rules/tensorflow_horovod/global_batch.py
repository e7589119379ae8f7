"""HVD7: with `--batch global` the ranks share each batch, and nothing else of the program changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ...source.edits import IN_FRONT, Layer
from ..base import Example, Finding, Fix, Problem, program
from .context import RUNTIME, Context, Rule
from .imports import MARK, SHARING_FILE, Place, first_place


class ShareProgram(Rule):
    """Share each batch among the ranks, with the result of one process (`--batch global`).

    Two lines at the top of the program; the rest stays as it is. Every rank runs the whole program, with the same seed and on the
    same batches. From each outermost call of a Keras layer or model a rank computes its own rows, all ranks gather the rows of
    all, and gradients are averaged. So losses, metrics, rates, step counts, callbacks and prints are those of one process,
    and need no change. Rank 0 prints and writes; the other ranks work on a copy of the folder. [exact.md](exact.md) says more.

    One call shares all models: layers are called outside models too, and models made in other modules, where no line of this
    program could share them. It comes first, so that all ranks draw the same random numbers from the beginning; the calls are shared as soon as the
    program has imported TensorFlow. With `--standalone` what is needed of `jupyter_hvd.runtime` is one file beside the program. Under `%%distribute` the ranks share already, and cells run as they are.
    """

    code = "HVD701"
    name = "share each batch"
    rationale = (
        "All ranks run this program with one seed, and share the rows of each call of a layer or model. "
        "One call shares all models, those that other modules make too."
    )
    examples = (
        Example(
            program(
                """
                import numpy as np
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile(tf.keras.optimizers.SGD(0.1), loss='mse')
                model.fit(np.load('x.npy'), np.load('y.npy'), batch_size=64)
                """
            ),
            program(
                """
                import jupyter_hvd.runtime as jhvd
                jhvd.start_shared()  # Horovod, added by jupyter hvd: the ranks share each batch
                import numpy as np
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile(tf.keras.optimizers.SGD(0.1), loss='mse')
                model.fit(np.load('x.npy'), np.load('y.npy'), batch_size=64)
                """
            ),
            batch="global",
        ),
    )
    mandatory = True

    def find(self, context: Context) -> Iterator[Finding]:
        if context.options.open_ended:
            return
        place = first_place(context)
        if place is None:
            yield Problem(
                context.module.tree,
                "every statement is on a line of IPython syntax, so sharing cannot be started",
                "import tensorflow on a line of its own",
            )
            return
        yield self._start(context, place)

    def provide(self, context: Context, name: str, users: Sequence[Fix]) -> Fix | None:
        """Other changes need the runtime library, and ranks that share."""
        place = None if context.options.open_ended else first_place(context)
        if name != RUNTIME or place is None:
            return None
        return replace(self._start(context, place), provides=RUNTIME)

    def _start(self, context: Context, place: Place) -> Fix:
        newline, indent = context.module.newline, context.module.indentation(place.offset)
        chosen = [] if context.options.guard else ["guard=False"]
        chosen += [] if context.options.data == "each" else [f'data="{context.options.data}"']
        lines = (
            f"import {SHARING_FILE if context.options.standalone else 'jupyter_hvd.runtime'} as {context.jhvd}",
            f"{context.jhvd}.start_shared({', '.join(chosen)})  {MARK}",
        )
        text = "".join(f"{line}{newline}{indent}" for line in lines)
        edit = context.insert(place.offset, text, Layer.SHARED + IN_FRONT)
        return Fix(place.statement, (edit,), needs=())
