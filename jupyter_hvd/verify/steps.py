"""Marks every training step of a program with a call that counts it.

The call stands in front of the statement that runs the step, on the same line, so
that line numbers stay. `fit` needs no mark: the probe counts its batches itself.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.module import Module
from ..convert.conversion import Options
from ..convert.edits import Edit, apply_edits
from ..convert.notebook import mask_cells
from ..convert.rule import Context

#: The name under which the probe puts its counter among the builtins.
COUNTER = "__jupyter_hvd_step__"


def mark_steps(sources: Sequence[str]) -> list[str]:
    """The cells of one program, or its single source, with a counter in front of each step.

    Raises:
        libcst.ParserSyntaxError: the program is no Python.
    """
    masked = mask_cells(sources) if len(sources) > 1 else sources[0]
    context = Context(Module(masked), Options())
    offsets: set[int] = set()
    for update in context.training.updates:
        for site in context.training.eager_sites(update):
            if context.training.in_keras(update.function):
                continue
            statement = context.statement_of(site.call)
            if statement is not None:
                offsets.add(context.module.span(statement).start)
    marked, start = [], 0
    for source in sources:
        own = [o - start for o in offsets if start <= o < start + len(source)]
        marked.append(apply_edits(source, [Edit(o, o, 0, f"{COUNTER}(); ") for o in own]))
        start += len(source) + 1
    return marked
