"""A notebook's file as text: the cells that change are written into it, and all else stays byte for byte."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .edits import Edit, apply_edits

_BLANKS = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True)
class ChangedCell:
    """The new contents of a code cell.

    Attributes:
        source: its text.
        cleared: whether to remove its outputs and execution count.
    """

    source: str
    cleared: bool


def with_cells(text: str, changed: Mapping[int, ChangedCell]) -> str:
    """Return the text of an nbformat 4 notebook with some cells changed.

    Args:
        text: the file's text, valid JSON.
        changed: the changed cells, by their position among all cells.
    """
    return apply_edits(text, list(_source_edits(text, changed)))


def _source_edits(text: str, changed: Mapping[int, ChangedCell]) -> Iterator[Edit]:
    """Yield the edits of a notebook's text that replace the sources of cells, and clear outputs where asked.

    Args:
        changed: new cells by position.
    """
    start = _object_members(text, _skip_blanks(text, 0))["cells"].start
    for place, cell_start in enumerate(_element_starts(text, start)):
        if place not in changed:
            continue
        cell = changed[place]
        members = _object_members(text, cell_start)
        yield members["source"].replace_value(
            text, _source_json(text, members["source"], cell.source)
        )
        if cell.cleared:
            for name, empty in (("outputs", "[]"), ("execution_count", "null")):
                if name in members:
                    yield members[name].replace_value(text, empty)


@dataclass(frozen=True)
class _Member:
    """A value in a JSON object: where its name begins, and where it begins and ends itself."""

    name: int
    start: int
    end: int

    def replace_value(self, text: str, new: str) -> Edit:
        """Return the edit that replaces this value."""
        return Edit(self.start, self.end, text=new)


def _skip_blanks(text: str, start: int) -> int:
    """Return the first position, from `start` on, that is not blank."""
    match = _BLANKS.match(text, start)
    assert match is not None
    return match.end()


def _object_members(text: str, start: int) -> dict[str, _Member]:
    """Return the members of the JSON object that begins at a position; of duplicate names the last, as JSON readers do."""
    found: dict[str, _Member] = {}
    place = _skip_blanks(text, start + 1)
    while text[place] != "}":
        key, end = _DECODER.raw_decode(text, place)
        value = _skip_blanks(text, _skip_blanks(text, end) + 1)
        _, value_end = _DECODER.raw_decode(text, value)
        found[key] = _Member(place, value, value_end)
        place = _skip_blanks(text, value_end)
        if text[place] == ",":
            place = _skip_blanks(text, place + 1)
    return found


def _element_starts(text: str, start: int) -> Iterator[int]:
    """Yield the positions at which the elements of the JSON array at `start` begin."""
    place = _skip_blanks(text, start + 1)
    while text[place] != "]":
        yield place
        _, end = _DECODER.raw_decode(text, place)
        place = _skip_blanks(text, end)
        if text[place] == ",":
            place = _skip_blanks(text, place + 1)


def _source_json(text: str, member: _Member, source: str) -> str:
    """Format a cell's text as JSON in the same form as in the file: one string, or a list of lines."""
    before = text[member.start : member.end]
    # A file in ASCII stays one where it has other characters as escapes.
    escaped = "\\u" in before and before.isascii()
    if before.startswith('"'):
        return _string_json(source, escaped)
    lines = [_string_json(line, escaped) for line in _split_lines(source)]
    margin = text[text.rfind("\n", 0, member.name) + 1 : member.name]
    if not lines:
        return "[]"
    if margin.strip(" \t"):  # all in one line
        return f"[{', '.join(lines)}]"
    first = re.match(r"\[\s*?\n([ \t]*)", before)
    deeper = first[1] if first else margin + (margin[:1] or " ")
    return "[\n" + ",\n".join(deeper + line for line in lines) + f"\n{margin}]"


def _string_json(text: str, escaped: bool) -> str:
    """Format a string as JSON; a lone surrogate can only be escaped."""
    try:
        text.encode()
    except UnicodeEncodeError:
        escaped = True
    return json.dumps(text, ensure_ascii=escaped)


def _split_lines(source: str) -> Sequence[str]:
    """Split a source as notebooks store it, in lines with their line ends."""
    return source.splitlines(keepends=True)


def join_lines(source: Any) -> str:
    """Return a cell's text, which a file may store as a list of lines."""
    return "".join(source) if isinstance(source, list) else str(source)
