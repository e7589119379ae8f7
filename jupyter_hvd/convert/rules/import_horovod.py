"""HVD101: Horovod is imported and started."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

import libcst as cst
from libcst.helpers import get_full_name_for_node

from ...source.edits import IN_FRONT, Layer
from .base import Example, Finding, Fix, Problem, program
from .context import HOROVOD, RUNTIME, TENSORFLOW, Context, Rule
from .imports import (
    HorovodPosition,
    choose_horovod_position,
    find_end_of_imports,
    find_first_import,
)

#: What sets a variable of the environment, which TensorFlow reads when it is loaded.
ENVIRONMENT = re.compile(r"\benviron\b|\bputenv\b|\bset_env\b|\bload_dotenv\b")


class ImportHorovod(Rule):
    """Import Horovod where other changes use it.

    Adds `import horovod.tensorflow as hvd` and `hvd.init()` after the imports of TensorFlow, or before an earlier line
    that needs them. Adds `import tensorflow as tf` where a change names TensorFlow and the program does not.

    Why:
    Batch sizes, rates and prints refer to `hvd.size()` and `hvd.rank()`. `jhvd.start_shared()` (HVD701) has already started Horovod and
    taken the GPU of the local rank, so `hvd.init()` changes nothing. It shows that this is a program for Horovod.

    Known problems:
    Importing Horovod loads TensorFlow. A program that sets TensorFlow's environment variables below the first line that needs
    the number of ranks is refused. Set them first, or import TensorFlow above that line.

    When it does not apply:
    Where no other change needs it, as with `--batch global`, which only needs HVD701. The rule cannot be left out.
    """

    code = "HVD101"
    name = "import Horovod"
    rationale = "The program asks Horovod for the number of ranks, and for its rank."
    examples = (
        Example(
            program(
                """
                import tensorflow as tf

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile(tf.keras.optimizers.SGD(0.1), loss='mse')
                model.fit(x, y)
                """
            ),
            program(
                """
                import tensorflow as tf
                import horovod.tensorflow as hvd
                hvd.init()

                model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
                model.compile(tf.keras.optimizers.SGD(0.1), loss='mse')
                model.fit(x, y)
                """
            ),
            "The rest of the program changes by the other rules.",
        ),
    )
    mandatory = True

    def find(self, context: Context) -> Iterator[Finding]:
        """Yield nothing: this rule only provides what other fixes need."""
        return iter(())

    def provide(self, context: Context, name: str, users: Sequence[Fix]) -> Fix | Problem | None:
        """Return the import of Horovod, TensorFlow or, in notebooks, the runtime library, if `name` asks for it.

        A `Problem` if Horovod would load TensorFlow before the program sets TensorFlow's environment.
        """
        if name not in (HOROVOD, RUNTIME, TENSORFLOW):
            return None
        place = choose_horovod_position(context, users)
        if place is None:
            return None  # HVD701 refuses the program
        if name == TENSORFLOW and not self._has_tensorflow(context, place):
            lines = [(Layer.TENSORFLOW, f"import tensorflow as {context.tf}")]
            return self._insert_lines(place, context, name, lines)
        if name == HOROVOD and place.in_front and (late := self._find_late_setting(context, place)):
            return late
        if name == RUNTIME and context.options.open_ended:
            line = f"import jupyter_hvd.runtime as {context.jhvd}"
            fix = self._insert_lines(place, context, name, [(Layer.RUNTIME, line)])
            # Cells need Horovod too, some now and some later: the cell of the imports stays the same.
            return replace(fix, needs=(HOROVOD,))
        if name == HOROVOD:
            imported = (Layer.HOROVOD, f"import horovod.tensorflow as {context.hvd}")
            joined = (Layer.START, f"{context.hvd}.init()")
            fix = self._insert_lines(place, context, HOROVOD, [imported, joined])
            return fix if context.options.open_ended else replace(fix, needs=(RUNTIME,))
        return None

    def _insert_lines(
        self,
        place: HorovodPosition,
        context: Context,
        name: str,
        lines: Sequence[tuple[int, str]],
    ) -> Fix:
        """Return the fix that inserts lines, each with its layer, at a position."""
        newline = context.module.newline
        edits = (
            context.insert(
                place.offset,
                (f"{line}\n" if place.in_front else f"\n{line}").replace("\n", newline),
                layer + (IN_FRONT if place.in_front else 0),
            )
            for layer, line in lines
        )
        return Fix(place.anchor, tuple(edits), needs=(), provides=name)

    def _find_late_setting(self, context: Context, place: HorovodPosition) -> Problem | None:
        """Return a problem if the program sets TensorFlow's environment after the position at which Horovod would load
        TensorFlow.
        """
        first = find_first_import(context)
        if first is None:
            return None
        end = find_end_of_imports(context, first)
        for statement in context.module.tree.body:
            span = context.module.span(statement)
            text = context.module.source[span.start : span.end]
            if place.offset <= span.start < end and ENVIRONMENT.search(text):
                return Problem(
                    statement,
                    "the environment is set here for TensorFlow, but a line above needs the number of ranks, and Horovod loads TensorFlow",
                    "set the environment first, or import tensorflow above",
                )
        return None

    def _has_tensorflow(self, context: Context, place: HorovodPosition) -> bool:
        """Whether the program itself binds TensorFlow's name above the position at which Horovod starts."""
        return any(
            get_full_name_for_node(alias.name) == "tensorflow"
            and (alias.evaluated_alias or "tensorflow") == context.tf
            and context.module.span(node).end <= place.offset
            for node in context.values.index.imports
            if isinstance(node, cst.Import) and context.module.function_of(node) is None
            for alias in node.names
        )
