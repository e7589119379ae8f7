"""Marks every training step of a program with a call that counts it.

The call stands in front of the statement that runs the step, on the same line, so
that line numbers stay. `fit` needs no mark: the probe counts its batches itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..convert.engine import deep_recursion
from ..rules.options import Options
from ..rules.tensorflow_horovod.context import Context
from ..source.cells import JoinedCells
from ..source.edits import Edit

#: The name under which the probe puts its counter among the builtins.
COUNTER = "__jupyter_hvd_step__"


def mark_steps(sources: Sequence[str]) -> list[str]:
    """The cells of one program, or its single source, with a counter in front of each step.

    Raises:
        libcst.ParserSyntaxError: the program is no Python.
    """
    cells = JoinedCells.of(sources)
    with deep_recursion():
        context = Context(cells, Options())
        statements = [
            context.statement_of(site.call)
            for update in context.training.updates
            for site in context.training.eager_sites(update)
            if not context.training.in_keras(update.function)
        ]
    offsets = {context.module.span(statement).start for statement in statements if statement}
    return cells.apply(Edit(offset, offset, text=f"{COUNTER}(); ") for offset in offsets)
