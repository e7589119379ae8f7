"""Cells ↔ module: a notebook's code cells are one program to the rules.

The cells are joined into one text. Magics and `!` lines are masked by Python of
exactly the same length, so that every offset means the same in the joined text, in
the masked one and, less the cell's start, in the cell; the edits are made on the
user's own text.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

from .conversion import Conversion, NotebookConversion, Options
from .edits import Edit, apply_edits
from .engine import convert_module, syntax_error

if TYPE_CHECKING:
    from nbformat import NotebookNode

#: Cell magics whose body is Python that runs in the notebook's own namespace.
PYTHON_CELL_MAGICS = frozenset({"capture", "distribute", "prun", "time", "timeit", "tensor"})
#: A line magic with a Python statement behind it, which is the program's own.
TIMED = re.compile(r"%time[ \t]+(?=[^\s-])")
#: Python of any length from one character on: a statement and a comment.
_SHORTEST = "0"


class NotPythonError(ValueError):
    """The notebook belongs to another language."""


def convert_notebook(
    notebook: NotebookNode, *, options: Options | None = None
) -> NotebookConversion:
    """Convert a notebook; the one given is left as it is.

    Cell boundaries, ids, metadata, markdown, magics and `!` lines stay. Code cells that
    change lose their outputs and execution count, which no longer belong to them.

    Raises:
        NotPythonError: the notebook's kernel speaks another language.
    """
    language = notebook_language(notebook)
    if language != "python":
        raise NotPythonError(f"this notebook is written in {language}, not in Python")
    indices = [index for index, cell in enumerate(notebook.cells) if cell.cell_type == "code"]
    sources = [notebook.cells[index].source for index in indices]
    converted_sources, outcome = convert_cells(sources, indices, options=options)
    converted = copy.deepcopy(notebook)
    for index, before, after in zip(indices, sources, converted_sources, strict=True):
        if before != after:
            converted.cells[index].source = after
            converted.cells[index].outputs = []
            converted.cells[index].execution_count = None
    return NotebookConversion(
        converted, outcome.status, outcome.training_loop, outcome.changes, outcome.diagnostics
    )


def convert_cells(
    sources: Sequence[str], indices: Sequence[int] | None = None, *, options: Options | None = None
) -> tuple[list[str], Conversion]:
    """Convert code cells as one program; magics and `!` lines are masked from the rules.

    Args:
        sources: the texts of the code cells, in the order in which they run.
        indices: the number by which changes and diagnostics name each cell; its position if not given.

    Returns:
        the converted cells, and the conversion of all of them joined.
    """
    joined = "".join(source + "\n" for source in sources)
    starts = tuple(accumulate((len(source) + 1 for source in sources[:-1]), initial=0))
    names = range(len(sources)) if indices is None else indices
    outcome = convert_module(
        mask_cells(sources), joined, starts, names, options or Options.resolve()
    )
    converted = []
    for start, source in zip(starts, sources, strict=False):
        edits = (
            Edit(edit.start - start, edit.end - start, edit.priority, edit.text)
            for change in outcome.changes
            for edit in change.edits
            if start <= edit.start <= start + len(source)
        )
        converted.append(apply_edits(source, edits))
    return converted, outcome


def notebook_language(notebook: NotebookNode) -> str:
    """The language of a notebook in lower case; Python where it says nothing."""
    metadata = notebook.get("metadata", {})
    kernel = metadata.get("kernelspec", {}).get("language")
    language = metadata.get("language_info", {}).get("name") or kernel or "python"
    return "python" if str(language).lower() in ("python", "ipython", "python3") else str(language)


def mask_cells(sources: Sequence[str]) -> str:
    """The joined cells with everything that is IPython's, not Python's, masked at equal length."""
    return "".join(mask_cell(source) + "\n" for source in sources)


def mask_cell(source: str) -> str:
    """A cell as Python of the same length and with the same lines."""
    magic = re.match(r"\s*%%(\w*)", source)
    if magic is not None:
        first_end = source.find("\n") if "\n" in source else len(source)
        if magic.group(1) not in PYTHON_CELL_MAGICS:
            return re.sub(r"[^\n\r]+", lambda line: "#" * len(line.group()), source)
        return "#" * first_end + mask_cell(source[first_end:])
    if not re.search(r"[%!?]", source):
        return source
    return source if syntax_error(source) is None else _mask_lines(source)


def _mask_lines(source: str) -> str:
    """Mask line magics, `!` lines, `x = !ls` and `help?`, found as IPython itself finds them."""
    from IPython.core.inputtransformer2 import (
        EscapedCommand,
        HelpEnd,
        MagicAssign,
        SystemAssign,
        find_end_of_continued_line,
        make_tokens_by_line,
    )

    lines = source.splitlines(keepends=True)
    for _ in range(len(lines) + 1):
        tokens = make_tokens_by_line(lines)
        found = [
            t
            for kind in (MagicAssign, SystemAssign, EscapedCommand, HelpEnd)
            if (t := kind.find(tokens))
        ]
        if not found:
            break
        first = min(found, key=lambda t: (t.start_line, t.start_col))
        last_line = min(find_end_of_continued_line(lines, first.start_line), len(lines) - 1)
        for number in range(first.start_line, last_line + 1):
            column = first.start_col if number == first.start_line else 0
            body = lines[number].rstrip("\r\n")
            mask = "#" * (len(body) - column)
            timed = TIMED.match(body, column) if number == last_line == first.start_line else None
            if timed is not None:
                mask = "0;".ljust(timed.end() - column) + body[timed.end() :]
            elif number == first.start_line:
                mask = _SHORTEST + mask[1:]
            lines[number] = body[:column] + mask + lines[number][len(body) :]
    return "".join(lines)
