"""What commands print about files, on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ..convert.documents import Document

if TYPE_CHECKING:
    from rich.console import Console

    from ..convert import Diagnostic, Outcome


def print_error(error: Exception | str) -> None:
    """Print an error on one line, whatever characters a file's name contains."""
    text = str(error).encode(errors="backslashreplace").decode().replace("\n", "\\n")
    print(f"jupyter hvd: {text}", file=sys.stderr)


def make_consoles(quiet: bool) -> tuple[Console, Console]:
    """Return Rich consoles for standard output and standard error; they print nothing if `quiet`."""
    from rich.console import Console

    return Console(quiet=quiet, highlight=False), Console(stderr=True, quiet=quiet, highlight=False)


def print_diff(console: Console, path: Path, before: Document, after: Document) -> None:
    """Print a unified diff for each changed cell, or for the script."""
    from difflib import unified_diff

    from rich.text import Text

    styles = {"+": "green", "-": "red", "@": "cyan"}
    for cell, source in before.sources.items():
        if source == after.sources[cell]:
            continue
        where = str(path) if cell is None else f"{path}, cell {cell}"
        lines = unified_diff(
            source.splitlines(),
            after.sources[cell].splitlines(),
            where,
            f"{where}, for Horovod",
            lineterm="",
        )
        for line in lines:
            style = "bold" if line.startswith(("---", "+++")) else styles.get(line[:1], "")
            console.print(Text(line, style=style), soft_wrap=True)


def print_outcome(console: Console, path: Path, outcome: Outcome, output: Path | None) -> None:
    """Print one line for each diagnostic, then one line about the file."""
    from rich.text import Text

    print_diagnostics(console, path, outcome.diagnostics)
    count = len(outcome.changes)
    summary = {
        "converted": f"{count} change{'s' * (count != 1)}"
        + (f", written to {output}" if output else ""),
        "unchanged": "no TensorFlow training to distribute"
        if not outcome.diagnostics
        else "nothing changed",
        "refused": "refused, nothing written",
        "invalid": "not converted",
    }[outcome.status]
    console.print(Text(f"{path}: {summary}"), soft_wrap=True)


def print_diagnostics(console: Console, path: Path, diagnostics: Sequence[Diagnostic]) -> None:
    """Print the converter's diagnostics of a file, each with its position and advice."""
    from rich.text import Text

    styles = {"error": "bold red", "warning": "bold yellow", "info": "bold blue"}
    for diagnostic in diagnostics:
        cell = "" if diagnostic.cell is None else f"cell {diagnostic.cell}:"
        text = Text.assemble(
            (f"{path}:{cell}{diagnostic.line}:{diagnostic.column}: ", "bold"),
            (diagnostic.code, styles[diagnostic.severity]),
            f" {diagnostic.message}",
            (f"\n    {diagnostic.help}" if diagnostic.help else "", "dim"),
        )
        console.print(text, soft_wrap=True)
