"""Converts the code cells of a notebook as one program, and keeps everything else."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..source.cells import JoinedCells
from ..source.edits import Edit
from .conversion import Conversion, NotebookConversion
from .engine import convert_joined
from .rules.options import Options

if TYPE_CHECKING:
    from nbformat import NotebookNode


class NotPythonError(ValueError):
    """The notebook belongs to another language."""


def convert_notebook(
    notebook: NotebookNode, *, options: Options | None = None
) -> NotebookConversion:
    """Convert a notebook; the argument is not modified.

    Cell boundaries, ids, metadata, markdown, magics and `!` lines stay. Code cells that change lose their outputs and execution
    count, which no longer belong to them.

    Raises:
        NotPythonError: the notebook's kernel speaks another language.
    """
    language = read_notebook_language(notebook)
    if language != "python":
        raise NotPythonError(f"this notebook is written in {language}, not in Python")
    indices = [index for index, cell in enumerate(notebook.cells) if cell.cell_type == "code"]
    cells = JoinedCells.of([notebook.cells[index].source for index in indices], indices)
    outcome = convert_joined(cells, options or Options())
    converted = copy.deepcopy(notebook)
    for index, before, after in zip(
        indices, cells.sources, cells.apply_edits(outcome.edits), strict=True
    ):
        if before != after:
            converted.cells[index].source = after
            converted.cells[index].outputs = []
            converted.cells[index].execution_count = None
    return NotebookConversion(
        outcome.status,
        outcome.training_loop,
        outcome.changes,
        outcome.diagnostics,
        notebook=converted,
    )


def convert_cells(
    sources: Sequence[str], *, options: Options | None = None
) -> tuple[list[list[Edit]], Conversion]:
    """Convert code cells as one program; magics and `!` lines are masked from the rules.

    Args:
        sources: the texts of the code cells, in the order in which they run.

    Returns:
        the edits to each cell, and the conversion of all of them joined.
    """
    cells = JoinedCells.of(sources)
    outcome = convert_joined(cells, options or Options.resolve())
    return cells.split_edits(outcome.edits), outcome


def read_notebook_language(notebook: NotebookNode) -> str:
    """Return the language in a notebook's metadata; "python" if it names none or a variant of Python."""
    metadata = notebook.get("metadata", {})
    kernel, info = metadata.get("kernelspec"), metadata.get("language_info")
    named = [
        part.get(key)
        for part, key in ((info, "name"), (kernel, "language"))
        if isinstance(part, dict)
    ]
    language = next(filter(None, named), "python")
    return "python" if str(language).lower() in ("python", "ipython", "python3") else str(language)
