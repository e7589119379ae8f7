"""Magics and help print on rank 0 only: `%env`, `%time`, `name?`.

What the user's own code prints within one, `%time train()`, is left to the conversion, as everywhere else.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from IPython.core.error import TryNext

from ..launch.library_code import is_library


def make_quiet(shell: Any) -> None:
    """Let a shell print no tracebacks, and no output of magics while its attribute `quiet_magics` is set.

    The starter of the rank prints tracebacks.
    """
    for name in ("showtraceback", "showsyntaxerror", "_showtraceback"):
        setattr(shell, name, lambda *_, **__: None)
    shell.set_hook("show_in_pager", show_page, 0)
    line_magic, cell_magic = shell.run_line_magic, shell.run_cell_magic
    hook = shell.displayhook
    format_value, value = hook.compute_format_data, None

    def run_line_magic(name: str, line: str, _stack_depth: int = 1) -> Any:
        nonlocal value
        if not shell.quiet_magics:
            return line_magic(name, line, _stack_depth + 1)
        with silence_magic(run_line_magic.__code__):
            value = line_magic(name, line, _stack_depth + 1)
        return value

    def run_cell_magic(name: str, line: str, cell: str) -> Any:
        nonlocal value
        if not shell.quiet_magics:
            return cell_magic(name, line, cell)
        with silence_magic(run_cell_magic.__code__):
            value = cell_magic(name, line, cell)
        return value

    def format_unless_magic(result: Any) -> Any:
        """Return the display of an expression's value; none for a magic's, such as `%pwd`."""
        return ({}, {}) if result is value else format_value(result)

    def forget_value(_: Any) -> None:
        nonlocal value
        value = None

    shell.events.register("post_run_cell", forget_value)
    shell.run_line_magic, shell.run_cell_magic = run_line_magic, run_cell_magic
    hook.compute_format_data = format_unless_magic


def show_page(_: Any, data: Any, start: int = 0, screen_lines: int = 0) -> None:  # noqa: ARG001 — IPython's parameters
    """Print what IPython would show in a pager, since there is none here."""
    text = data.get("text/plain") if isinstance(data, dict) else data
    if not isinstance(text, str):
        raise TryNext
    print(*text.splitlines()[start:], sep="\n")


class MagicOutput:
    """Standard output while a magic runs: what the magic itself prints is dropped."""

    def __init__(self, stream: Any, around: CodeType) -> None:
        self._stream, self._around = stream, around

    def write(self, text: str) -> int:
        """Write text if the user's code prints it; discard what the magic prints."""
        if is_called_by_user(sys._getframe(1), self._around):
            self._stream.write(text)
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write lines if the user's code prints them; discard what the magic prints."""
        if is_called_by_user(sys._getframe(1), self._around):
            self._stream.writelines(lines)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextmanager
def silence_magic(around: CodeType) -> Iterator[None]:
    """Drop what a magic prints in a block, which is a part of the code `around`."""
    before = sys.stdout
    sys.stdout = output = MagicOutput(before, around)
    try:
        yield
    finally:
        if sys.stdout is output:  # the user's code may have set another one
            sys.stdout = before


def is_called_by_user(frame: FrameType | None, until: CodeType) -> bool:
    """Whether there is a frame of the user's code from this one up to that of some code."""
    while frame is not None and frame.f_code is not until:
        if not is_library(frame.f_code.co_filename):
            return True
        frame = frame.f_back
    return frame is None  # another thread: it is not the magic's
