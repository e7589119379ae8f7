"""Marks every training step of a program with a call that counts it.

The call stands in front of the statement that runs the step, on the same line, so
that line numbers stay; it bears the statement's number, by which a verification says where ranks
part. `fit` needs no mark: the probe counts its batches itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import libcst as cst

from ..convert.engine import deep_recursion
from ..rules.options import Options
from ..rules.tensorflow_horovod.context import Context
from ..source.cells import JoinedCells
from ..source.edits import Edit
from .probe import COUNTER

#: So much of a statement is shown.
SHOWN = 60


def mark_steps(sources: Sequence[str]) -> list[str]:
    """The cells of one program, or its single source, with a counter in front of each step.

    Raises:
        libcst.ParserSyntaxError: the program is no Python.
    """
    cells = JoinedCells.of(sources)
    with deep_recursion():
        steps = _steps(Context(cells, Options()))
    return cells.apply(
        Edit(offset, offset, text=f"{COUNTER}({number}); ") for number, offset in enumerate(steps)
    )


def step_places(sources: Sequence[str], labels: Iterable[int] | None) -> list[str]:
    """The statements that `mark_steps` marks, in its order, with those that update weights in them, to be read by the user;
    the last is the program's `fit`, '' where there is not one alone.

    Args:
        labels: the numbers by which the user knows the cells; None for a script.

    Raises:
        libcst.ParserSyntaxError: the program is no Python.
    """
    cells = JoinedCells(tuple(sources), None if labels is None else tuple(labels))
    with deep_recursion():
        context = Context(cells, Options())
        found = [
            ", which runs ".join(_told(context, node) for node in nodes)
            for nodes in _steps(context).values()
        ]
        fits = context.training.keras.fits
        return [*found, _told(context, fits[0]) if len(fits) == 1 else ""]


def _steps(context: Context) -> dict[int, list[cst.CSTNode]]:
    """By the offsets of the statements that run steps, in order: each statement, and the first update in a function of it."""
    found: dict[int, list[cst.CSTNode]] = {}
    for update, sites in context.training.own_updates:
        for site in sites:
            statement = context.statement_of(site.call)
            if statement is not None:
                inner = [update.call] if site.chain else []
                found.setdefault(context.module.span(statement).start, [statement, *inner])
    return dict(sorted(found.items()))


def _told(context: Context, node: cst.CSTNode) -> str:
    """Where a statement stands, and how it begins."""
    cell, line, _ = context.cells.locate(context.module.span(node).start)
    text = " ".join(context.module.text(node).split())
    shown = text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
    return f"line {line}{'' if cell is None else f' of cell {cell}'}: `{shown}`"
