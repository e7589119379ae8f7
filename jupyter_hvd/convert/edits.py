"""Edits to a text: what every rule finally yields.

Rules never print a tree back. They replace spans of the user's own text, so what
no rule names comes back byte for byte, comments and all, and each change can be
taken or left by itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    """Replace `source[start:end]` by `text`; `start == end` inserts.

    Insertions at one place are applied in the order of `priority`: an outer
    wrapper opens before an inner one (negative) and closes after it (positive).
    """

    start: int
    end: int
    priority: int = 0
    text: str = ""

    def order(self) -> tuple[int, int, int]:
        """The order in which edits are applied; those that are equal in it, as they come."""
        return (self.start, self.end, self.priority)


def apply_edits(source: str, edits: Iterable[Edit]) -> str:
    """The source with all edits made.

    Raises:
        ValueError: two edits replace overlapping spans.
    """
    pieces: list[str] = []
    position = 0
    for edit in sorted(dict.fromkeys(edits), key=Edit.order):
        if edit.start < position:
            raise ValueError(f"overlapping edits at offset {edit.start}")
        pieces += (source[position : edit.start], edit.text)
        position = edit.end
    pieces.append(source[position:])
    return "".join(pieces)
