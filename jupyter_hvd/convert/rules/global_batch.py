"""HVD701: share each batch among the ranks; with `--batch global` almost nothing else changes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ...source.edits import IN_FRONT, Layer
from .base import Example, Finding, Fix, Problem, program
from .context import RUNTIME, Context, Rule
from .imports import MARK, SHARING_FILE, InsertionPoint, find_first_insertion_point


class ShareProgram(Rule):
    """Share each batch among the ranks, with the result of one process.

    Adds two lines at the top of the program; with `--batch global` only HVD102 and HVD104 change anything else. With `--standalone` they import `jupyter_hvd_sharing.py`,
    one file beside the program, so jupyter_hvd need not be installed.

    Why:
    Every rank runs the full program, with the same seed and on the same batches. At each outermost call of a Keras layer or model a rank
    computes its own rows, and the ranks gather the rows of all. Gradients are averaged. So losses, metrics, rates, step counts, callbacks
    and prints are those of one process, and need no change. Rank 0 prints and writes; the other ranks work on a copy of the folder
    ([exact.md](exact.md)).

    One call shares all models, also those that other modules make. It comes first, so that all ranks draw the same random
    numbers from the beginning.

    Known problems:
    - Layers that do not compute each row by itself, and training of plain variables, run unsharded on every rank: the same result, no speedup.
    - Ranks that read different data stop with an error. Generators without a seed are the usual reason; `--data rank0` lets rank 0 read.
    - Writes to absolute paths are made by every rank.

    When it does not apply:
    Under `%%distribute`, whose ranks share already. A notebook that consists of IPython syntax only is refused. The rule cannot be left out.
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
        place = find_first_insertion_point(context)
        if place is None:
            yield Problem(
                context.module.tree,
                "every statement is on a line of IPython syntax, so sharing cannot be started",
                "import tensorflow on a line of its own",
            )
            return
        yield self._start_sharing(context, place)

    def provide(self, context: Context, name: str, users: Sequence[Fix]) -> Fix | None:
        """Return the lines that import the runtime library and start sharing, if other changes need the library."""
        place = None if context.options.open_ended else find_first_insertion_point(context)
        if name != RUNTIME or place is None:
            return None
        return replace(self._start_sharing(context, place), provides=RUNTIME)

    def _start_sharing(self, context: Context, place: InsertionPoint) -> Fix:
        """Return the fix that inserts the import of the runtime library and the call of `start_shared`."""
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
