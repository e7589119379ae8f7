"""Cells ↔ module: a notebook's code cells are one program to the rules.

The cells are joined into one text. Magics and `!` lines are masked by Python of
exactly the same length, so that every offset means the same in the joined text, in
the masked one and, less the cell's start, in the cell; the edits are made on the
user's own text.
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from .conversion import NotebookConversion, Options

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


def convert_notebook(notebook: NotebookNode, *, options: Options | None = None) -> NotebookConversion:
    """Convert a notebook; the one given is left as it is.

    Cell boundaries, ids, metadata, markdown, magics and `!` lines stay. Code cells that
    change lose their outputs and execution count, which no longer belong to them.

    Raises:
        NotPythonError: the notebook's kernel speaks another language.
    """
    from .engine import convert_module

    language = notebook_language(notebook)
    if language != "python":
        raise NotPythonError(f"this notebook is written in {language}, not in Python")
    indices, cell_starts, original = join_cells(notebook)
    masked = mask_cells([notebook.cells[index].source for index in indices])
    conversion = convert_module(masked, original, cell_starts, indices, options or Options())
    converted = copy.deepcopy(notebook)
    if conversion.status == "converted":
        from .edits import apply_edits

        edits = {edit for change in conversion.changes for edit in change.edits}
        for part, index in enumerate(indices):
            start = cell_starts[part]
            end = start + len(notebook.cells[index].source)
            own = [edit for edit in edits if start <= edit.start <= end]
            if own:
                shifted = [type(e)(e.start - start, e.end - start, e.priority, e.text) for e in own]
                converted.cells[index].source = apply_edits(notebook.cells[index].source, shifted)
                converted.cells[index].outputs = []
                converted.cells[index].execution_count = None
    return NotebookConversion(
        converted, conversion.status, conversion.training_loop, conversion.changes, conversion.diagnostics
    )


def notebook_language(notebook: NotebookNode) -> str:
    """The language of a notebook in lower case; Python where it says nothing."""
    metadata = notebook.get("metadata", {})
    kernel = metadata.get("kernelspec", {}).get("language")
    language = metadata.get("language_info", {}).get("name") or kernel or "python"
    return "python" if str(language).lower() in ("python", "ipython", "python3") else str(language)


def join_cells(notebook: NotebookNode) -> tuple[list[int], tuple[int, ...], str]:
    """The indices of the code cells, where each begins in the joined text, and that text."""
    indices = [index for index, cell in enumerate(notebook.cells) if cell.cell_type == "code"]
    starts, position = [], 0
    for index in indices:
        starts.append(position)
        position += len(notebook.cells[index].source) + 1
    joined = "".join(notebook.cells[index].source + "\n" for index in indices)
    return indices, tuple(starts) or (0,), joined


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
    if _parses(source) or not re.search(r"[%!?]", source):
        return source
    return _mask_lines(source)


def _parses(source: str) -> bool:
    try:
        # Cells may await at top level.
        compile(source, "cell", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except (SyntaxError, ValueError):
        return False
    return True


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
        found = [t for kind in (MagicAssign, SystemAssign, EscapedCommand, HelpEnd) if (t := kind.find(tokens))]
        if not found:
            break
        first = min(found, key=lambda t: (t.start_line, t.start_col))
        last_line = find_end_of_continued_line(lines, first.start_line)
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
