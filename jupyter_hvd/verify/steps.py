"""Marks every training step of a program with a call that counts it.

The call stands in front of the statement that runs the step, on the same line, so
that line numbers stay; it bears the statement's number, by which a verification says where ranks
part. So does a call in front of each statement that updates weights, which may be compiled into a step.
`fit` needs no mark: the probe counts its batches itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import libcst as cst

from ..rules.options import Options
from ..rules.tensorflow_horovod.context import Context
from ..source.cells import JoinedCells
from ..source.edits import Edit
from ..source.parsing import deep_recursion
from .probe import ALONE, COUNTER, UPDATER

#: So much of a statement is shown.
SHOWN = 60
#: What stands around what rank 0 does alone, in a program for one process.
ALWAYS = "True is True"
#: Stands between a statement and one that it runs.
RUNS = ", which runs "


@dataclass(frozen=True)
class Places:
    """Statements of a program, to be read by its user.

    Attributes:
        steps: those that run training steps, in their order, each with the first that updates weights in it.
        updates: those that update weights, in their order.
        fit: the program's `fit`, '' where there is not one alone.
    """

    steps: tuple[str, ...] = ()
    updates: tuple[str, ...] = ()
    fit: str = ""

    def where(self, step: int, update: int) -> str:
        """Where a variable was changed, '' where that is not known.

        Args:
            step: the number of the statement that ran the step, -1 for `fit`. update: of the one that updated it, -1 if unknown.
        """
        by = self.fit if step < 0 else "".join(self.steps[step : step + 1])
        changed = "".join(self.updates[update : update + 1]) if update >= 0 else ""
        if not changed or by.startswith(changed):
            return by
        return f"{changed}, run by {by.partition(RUNS)[0]}" if by else changed


def mark_steps(sources: Sequence[str]) -> list[str]:
    """The cells of one program, or its single source, with a counter in front of each step and each update.

    Raises:
        libcst.ParserSyntaxError: the program is no Python.
    """
    cells = JoinedCells.of(sources)
    with deep_recursion():
        context = Context(cells, Options())
        marked = ((COUNTER, _steps(context)), (UPDATER, _updates(context)))
    marks: dict[int, str] = {}
    for name, offsets in marked:
        for number, offset in enumerate(offsets):
            marks[offset] = f"{marks.get(offset, '')}{name}({number}); "
    edits = [Edit(offset, offset, text=text) for offset, text in marks.items()]
    return cells.apply([*edits, *_alone(context)])


def _alone(context: Context) -> Iterator[Edit]:
    """Marks in the tests of the blocks that rank 0 runs alone."""
    module = context.module
    for each in module.tree.body:
        test = module.text(each.test) if isinstance(each, cst.If) else ""
        if isinstance(each, cst.If) and (test == ALWAYS or test.endswith(".rank() == 0")):
            span, end = module.span(each), module.span(each.test).end
            lines = module.line(span.end) - module.line(span.start)
            yield Edit(end, end, text=f" and {ALONE}({lines})")


def step_places(sources: Sequence[str], labels: Iterable[int] | None) -> Places:
    """The statements that `mark_steps` marks.

    Args:
        labels: the numbers by which the user knows the cells; None for a script.

    Raises:
        libcst.ParserSyntaxError: the program is no Python.
    """
    cells = JoinedCells(tuple(sources), None if labels is None else tuple(labels))
    with deep_recursion():
        context = Context(cells, Options())
        found = [
            RUNS.join(_told(context, node) for node in nodes) for nodes in _steps(context).values()
        ]
        updates = [_told(context, statement) for statement in _updates(context).values()]
        fits = context.training.keras.fits
        fit = _told(context, fits[0]) if len(fits) == 1 else ""
        return Places(tuple(found), tuple(updates), fit)


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


def _updates(context: Context) -> dict[int, cst.CSTNode]:
    """By their offsets, in order, the statements that update weights themselves."""
    found: dict[int, cst.CSTNode] = {}
    for update, _ in context.training.own_updates:
        statement = context.statement_of(update.call)
        if statement is not None:
            found.setdefault(context.module.span(statement).start, statement)
    return dict(sorted(found.items()))


def _told(context: Context, node: cst.CSTNode) -> str:
    """Where a statement stands, and how it begins."""
    cell, line, _ = context.cells.locate(context.module.span(node).start)
    text = " ".join(context.module.text(node).split())
    shown = text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"
    return f"line {line}{'' if cell is None else f' of cell {cell}'}: `{shown}`"
