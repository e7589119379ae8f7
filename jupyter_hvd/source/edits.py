"""Edits to a text: what every rule finally yields.

Rules never print a tree back. They replace spans of the user's own text, so what
no rule names comes back byte for byte, comments and all, and each change can be
taken or left by itself.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import IntEnum


class Layer(IntEnum):
    """The order of insertions at one place, the smallest first.

    A wrapper opens at its layer and closes at minus its layer: of two around one expression, the one with
    the smaller layer opens first and closes last, so it stands outside.
    """

    GUARD = -20  # the header that a statement is put under
    INDENT = -19  # and the statement, one step further in
    CHOICE = -8  # `… if hvd.rank() == 0 else …` behind an expression
    FIRST_ELEMENT = -5
    PLAIN = 0
    BEHIND_BLOCK = 1  # a line after a block, behind what follows the last line of that
    CALLBACKS = 2  # new arguments of `fit`, in this order
    VERBOSE = 3
    # Wrappers, from the outermost to the innermost
    LIST = 5
    WRAP = 10
    COUNT = 11
    # Lines at the top, or after the imports, in this order
    SHARED = 19
    TENSORFLOW = 20
    HOROVOD = 21
    RUNTIME = 22
    START = 23


#: Added to these layers where they stand in front of a statement, whatever that is put under.
IN_FRONT = -1000


@dataclass(frozen=True)
class Edit:
    """Replaces `source[start:end]` by `text`; `start == end` inserts.

    Attributes:
        priority: orders insertions at one offset; see `Layer`.
        unless: the position of a change in the conversion, with which this edit is not made.
        other_end: for an insertion at one end of an expression, the offset of the other end. It distinguishes and nests
            wrappers that open at one offset and close at several.
    """

    start: int
    end: int
    priority: int = Layer.PLAIN
    text: str = ""
    unless: int | None = None
    other_end: int | None = field(default=None, repr=False)

    def sort_key(self) -> tuple[int, int, int, int, int]:
        """Return the key that orders edits. Equal edits stay in their original order.

        The outer of two expressions opens first and closes last, whatever its layer; otherwise wrappers would overlap.
        """
        if self.other_end is None:
            return (self.start, self.end, self.priority, 0, 0)
        side = Layer.WRAP if self.other_end > self.start else -Layer.WRAP
        return (self.start, self.end, side, -self.other_end, self.priority)

    def relative_to(self, start: int) -> Edit:
        """Return the edit with offsets relative to `start`."""
        other = None if self.other_end is None else self.other_end - start
        return replace(self, start=self.start - start, end=self.end - start, other_end=other)


def by_priority(edits: Iterable[Edit]) -> dict[Edit, Edit]:
    """Return the edits with priorities that alone give their order, for readers who see nothing else of them.

    Priorities change only where wrappers of several expressions meet at one offset.
    """
    places: dict[tuple[int, int], dict[Edit, None]] = defaultdict(dict)
    for edit in edits:
        places[edit.start, edit.end][edit] = None
    found: dict[Edit, Edit] = {}
    for met in places.values():
        found.update((edit, edit) for edit in met)
        if len({edit.other_end for edit in met} - {None}) > 1:
            once = dict.fromkeys(replace(e, unless=None) for e in sorted(met, key=Edit.sort_key))
            ranks = {edit: rank for rank, edit in enumerate(once)}
            found.update(
                (edit, replace(edit, priority=ranks[replace(edit, unless=None)], other_end=None))
                for edit in met
            )
    return found


def apply_edits(source: str, edits: Iterable[Edit]) -> str:
    """Return the source with all edits applied.

    Raises:
        ValueError: two edits replace overlapping spans.
    """
    pieces: list[str] = []
    position = 0
    for edit in sorted(dict.fromkeys(edits), key=Edit.sort_key):
        if edit.start < position:
            raise ValueError(f"overlapping edits at offset {edit.start}")
        pieces += (source[position : edit.start], edit.text)
        position = edit.end
    pieces.append(source[position:])
    return "".join(pieces)
