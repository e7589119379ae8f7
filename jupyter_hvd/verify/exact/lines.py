"""Finds the line of the user's program that is running, or that created an operation of a compiled function."""

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


def find_running_line() -> str:
    """Return the line of the user's program that is running now, as `train.py, line 12`."""
    return find_user_line(walk_stack(sys._getframe(1)))


def find_calling_line() -> str:
    """Return the line of the user's program that called the observed function; "" where a library called it.

    Call it from a listener only: it skips three frames of the call stack.
    """
    frame = sys._getframe(3)
    return format_user_line(frame.f_code.co_filename, frame.f_lineno)


def find_operation_line(operation: Any) -> str:
    """Return the line of the user's program that created an operation, also within a compiled function."""
    return find_user_line((frame.filename, frame.lineno) for frame in reversed(operation.traceback))


def find_user_line(locations: Iterator[tuple[str, int]]) -> str:
    """Return the first of some source locations that is in the user's program, "" for none.

    If none is, take the line where the main thread waits: `tf.distribute` traces steps in threads of its own.
    """
    from ...runtime.sharing.keras_versions import converted_lines

    converted: dict[tuple[str, int], tuple[str, int]] | None = None
    waiting = sys._current_frames().get(threading.main_thread().ident or 0)
    for own in (locations, walk_stack(waiting)):
        for file, number in own:
            if GENERATED in file:
                converted = converted_lines() if converted is None else converted
                file, number = converted.get((file, number), (file, number))
            if found := format_user_line(file, number):
                return found
    return ""


def walk_stack(frame: Any) -> Iterator[tuple[str, int]]:
    """Yield file and line of a frame and of each of its callers."""
    while frame is not None:
        yield frame.f_code.co_filename, frame.f_lineno
        frame = frame.f_back


def format_user_line(file: str, number: int) -> str:
    """Format a location as `train.py, line 12` or `cell 3, line 2`; "" for a file that is not the user's."""
    if file.startswith((*INSTALLED, "<frozen")) or GENERATED in file:
        return ""
    cell = own_files.get(file)
    return f"cell {cell}, line {number}" if cell else f"{Path(file).name}, line {number}"
