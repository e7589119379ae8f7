"""Finds the line of the user's program that runs now, or that made an operation of a compiled function."""

from __future__ import annotations

import sys
import sysconfig
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ...launch.rank_location import own_files

#: What is no line of the user's.
INSTALLED = tuple({*sysconfig.get_paths().values(), str(Path(__file__).parents[2])})
#: What the names of files have in them that AutoGraph writes.
GENERATED = "__autograph_generated_file"


def line_now() -> str:
    """The line of the user's program that runs now."""
    return first_line(places_of(sys._getframe(1)))


def own_line() -> str:
    """The line of the user's program that calls an observed function, asked by its listener; "" where a library's does."""
    frame = sys._getframe(3)
    return user_line(frame.f_code.co_filename, frame.f_lineno)


def line_of(operation: Any) -> str:
    """The line of the user's program that made an operation, also within a compiled function."""
    return first_line((frame.filename, frame.lineno) for frame in reversed(operation.traceback))


def first_line(places: Iterator[tuple[str, int]]) -> str:
    """The first of some places that is the user's.

    Where a thread has none, it is that at which the main thread waits for it: `tf.distribute` traces steps in threads of its own.
    """
    from ...runtime.sharing.keras_versions import converted_lines

    converted: dict[tuple[str, int], tuple[str, int]] | None = None
    waiting = sys._current_frames().get(threading.main_thread().ident or 0)
    for own in (places, places_of(waiting)):
        for file, number in own:
            if GENERATED in file:
                converted = converted_lines() if converted is None else converted
                file, number = converted.get((file, number), (file, number))
            if found := user_line(file, number):
                return found
    return ""


def places_of(frame: Any) -> Iterator[tuple[str, int]]:
    """Where a frame is, and those that have called it."""
    while frame is not None:
        yield frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back


def user_line(file: str, number: int) -> str:
    """`train.py, line 12` or `cell 3, line 2`; "" for a line that is none of the user's."""
    if file.startswith((*INSTALLED, "<frozen")) or GENERATED in file:
        return ""
    cell = own_files.get(file)
    return f"cell {cell}, line {number}" if cell else f"{Path(file).name}, line {number}"
