"""Which cell of the notebook a file name means, and errors that point into cells."""

from __future__ import annotations

import linecache
import re
from typing import Any

from ..tensor import TensorError
from ..tensor.language.errors import Place
from .view import Source


class Cells:
    """The notebook's cells by the file names that the kernel gives to their code."""

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.ids: dict[str, str | None] = {}
        self.raw = ""
        self.cell: str | None = None

    def note_cell(self, info: Any) -> None:
        """Record the current cell, and the file name that the kernel gives to its code."""
        self.raw, self.cell = info.raw_cell, getattr(info, "cell_id", None)
        self.ids[self.shell.compile.get_code_name(self.raw, self.raw, 0)] = self.cell

    def enter_cell(self, body: str) -> tuple[str, str]:
        """Cache the body of the current cell's magic as source.

        Returns:
            The source, with the cell's line numbers, and its file name.
        """
        lines = self.raw.splitlines()
        above = next((k for k, line in enumerate(lines) if line.startswith("%%")), 0) + 1
        source = "\n" * above + body
        count = len(self.shell.user_ns.get("In", ())) - 1
        name = self.shell.compile.cache(source, count, raw_code=f"{self.raw}\0body")
        self.ids[name] = self.cell
        return source, str(name)

    def locate_cell(self, position: Place) -> Source:
        """Return the cell or file, and the line, to which a source position belongs."""
        shown = self.shell.compile.format_code_name(position.filename)
        count = re.fullmatch(r"In\s?\[(\d+)\]", shown[1]) if shown else None
        text = linecache.getline(position.filename, position.line) or position.text
        return Source(
            self.ids.get(position.filename),
            int(count[1]) if count else None,
            "" if count else position.filename,
            position.line,
            text.rstrip("\n"),
        )


def explain_error(error: Exception, cells: Cells) -> str:
    """Return an error as text: the position, the line with a caret, what is wrong, what to write instead."""
    if not isinstance(error, TensorError):
        return f"{type(error).__name__}: {error}"
    lines = []
    if error.place is not None:
        at = error.place
        source = cells.locate_cell(at)
        where = source.file if source.count is None else f"cell [{source.count}]"
        carets = "^" * max(1, at.end_column - at.column)
        lines += [
            f"{where}, line {at.line}",
            f"    {at.text.rstrip()}",
            f"    {' ' * at.column}{carets}",
        ]
    lines.append(error.message)
    if error.help:
        lines.append(f"→ {error.help}")
    return "\n".join(lines)


class CellError(Exception):
    """Errors in a cell's functions, shown without a traceback: it would only show our own code."""

    def __init__(self, errors: list[TensorError], cells: Cells) -> None:
        self.errors = errors
        self.texts = [explain_error(error, cells) for error in errors]
        super().__init__("\n\n".join(self.texts))

    def _render_traceback_(self) -> list[str]:
        """Return the lines that IPython prints in place of a traceback."""
        return [f"\x1b[31mTensorError\x1b[0m in {text}" for text in self.texts]
