"""Maps each line of a conversion to the line of the program that it comes from, by comparing texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import SequenceMatcher


def line_origins(before: str, after: str) -> tuple[int, ...]:
    """Map each line of a text, from 1, to the line of an earlier version that it comes from.

    An inserted line belongs to the line after it; a replacement to the lines that it replaces.
    """
    old, new = ([line.strip() for line in text.splitlines()] for text in (before, after))
    origins: list[int] = []
    for _, first, last, start, end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        for offset in range(end - start):
            line = first + min(offset, max(0, last - first - 1))
            origins.append(min(line, max(0, len(old) - 1)) + 1)
    return tuple(origins)


def origin_finder(
    before: Mapping[int | None, str], after: Mapping[int | None, str]
) -> Callable[[tuple[str, int]], tuple[int | None, int, str] | None]:
    """Make a function that finds the cell label, line and text that a line of a converted program comes from.

    Args:
        before, after: the program's texts by cell, None for a script, whose label is "".
    """

    def find_line(position: tuple[str, int]) -> tuple[int | None, int, str] | None:
        cell = int(position[0]) if position[0] else None
        if cell not in before or cell not in after:
            return None
        origins = line_origins(before[cell], after[cell])
        if not 0 < position[1] <= len(origins):
            return None
        line = origins[position[1] - 1]
        return cell, line, before[cell].splitlines()[line - 1].strip() if before[cell] else ""

    return find_line
