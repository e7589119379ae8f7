"""Translates errors from the ranks to lines of the user's cells. Pure functions from text to text."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ..launch.base import SECONDARY_FAILURE
from ..ranks.reply import RemoteError, Reply
from ..ranks.sent_cells import SentCell

_IN_CELL = re.compile(r'File "(<In\[\d+\]#\d+>)", line (\d+)')
RED, GREEN, BOLD, DIM, PLAIN = "\x1b[31m", "\x1b[32m", "\x1b[1m", "\x1b[2m", "\x1b[0m"
CONTEXT = 2


def in_user_lines(text: str, cells: Mapping[str, SentCell]) -> str:
    """Replace file names and lines of sent cells, in a text of TensorFlow's, by the user's cells and lines."""

    def replace_file(match: re.Match[str]) -> str:
        cell = cells.get(match[1])
        return (
            match[0]
            if cell is None
            else f"Cell In[{cell.number}], line {cell.user_line(int(match[2]))}"
        )

    return _IN_CELL.sub(replace_file, text)


def render_traceback(error: RemoteError, where: str, cells: Mapping[str, SentCell]) -> list[str]:
    """Return the lines of a traceback, as IPython shows one; its causes come first.

    Args:
        where: the rank, such as "rank 1".
        cells: the cells by the names of their files on the ranks.
    """
    lines: list[str] = []
    if error.because:
        lines += render_traceback(error.because, where, cells)
        link = (
            "The above exception was the direct cause of the following exception:"
            if error.direct
            else "During handling of the above exception, another exception occurred:"
        )
        lines += ["", link, ""]
    kind, text = error.type, in_user_lines(error.text, cells)
    head = f"{RED}{kind}{PLAIN}"
    lines.append(
        f"{head}{' ' * max(1, 42 - len(kind))}Traceback (most recent call last) on {where}"
    )
    for file, line, name, code in error.frames:
        lines += render_frame(file, line, name, code, cells)
    if error.syntax is not None and error.syntax[0] in cells:
        file, line, text = error.syntax
        lines += render_frame(file, line, "<module>", "", cells)
    lines += ["", f"{head}: {text}" if text else head]
    return lines


def render_frame(
    file: str, line: int, name: str, code: str, cells: Mapping[str, SentCell]
) -> list[str]:
    """Return the lines for one frame: with an excerpt of the user's cell, or with one line of another file."""
    inside = "" if name == "<module>" else f", in {GREEN}{name}{PLAIN}"
    cell = cells.get(file)
    if cell is None:
        return [f"File {GREEN}{file}:{line}{PLAIN}{inside}", f"    {code.strip()}"]
    own = cell.user_line(line)
    return [
        f"{GREEN}Cell In[{cell.number}], line {own}{PLAIN}{inside}",
        *code_excerpt(cell.source, own),
    ]


def code_excerpt(source: str, line: int) -> list[str]:
    """Return a line of a cell with its neighbours, and an arrow to it."""
    rows = source.splitlines()
    shown = []
    for number in range(max(1, line - CONTEXT), min(len(rows), line + CONTEXT) + 1):
        row = rows[number - 1]
        if number == line:
            shown.append(f"{GREEN}----> {number}{PLAIN} {BOLD}{row}{PLAIN}")
        else:
            shown.append(f"{DIM}{number:>7}{PLAIN} {row}")
    return shown


def find_blamed_rank(errors: Mapping[int, Reply]) -> int:
    """Return the rank whose error is the cause: the earliest that does not only repeat another rank's failure."""

    def is_echo(error: RemoteError | None) -> bool:
        return error is not None and (
            error.type == "KeyboardInterrupt"
            or bool(SECONDARY_FAILURE.search(f"{error.type}: {error.text}"))
        )

    return min(errors, key=lambda rank: (is_echo(errors[rank].error), errors[rank].time))
