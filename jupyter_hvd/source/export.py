"""A notebook as a script that plain Python runs, in the percent format that editors know."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .masking import extract_statement, mask_cell

if TYPE_CHECKING:
    from nbformat import NotebookNode


def to_script(notebook: NotebookNode) -> str:
    """Convert all cells to a script in order; text cells and magics, which Python does not know, become comments."""
    parts = []
    for cell in notebook.cells:
        if cell.cell_type == "code":
            parts.append(f"# %%\n{without_magics(cell.source)}")
        else:
            parts.append(f"# %% [{cell.cell_type}]\n{comment_out(cell.source)}")
    return "\n".join(part.rstrip() + "\n" for part in parts)


def without_magics(source: str) -> str:
    """Return a cell's Python; `pass` replaces a magic, which may be all that a block contains."""
    lines = []
    for line, masked in zip(source.split("\n"), mask_cell(source).split("\n"), strict=True):
        indent = line[: len(line) - len(line.lstrip())]
        if line == masked:
            lines.append(line)
        elif (own := extract_statement(line, masked)) is not None:
            lines.append(own)
        elif set(masked.strip()) == {"#"}:
            lines.append(comment_out(line))
        else:
            lines.append(f"{indent}pass  # {line.lstrip()}")
    return "\n".join(lines)


def comment_out(text: str) -> str:
    """Put `#` in front of each line."""
    return "\n".join(f"# {line}".rstrip() for line in text.split("\n"))
