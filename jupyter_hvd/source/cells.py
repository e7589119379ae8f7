"""Cells ↔ program: a notebook's code cells are one program to the rules.

The cells are joined into one text. Magics and `!` lines are masked by Python of
exactly the same length, so that every offset means the same in the joined text, in
the masked one and, less the cell's start, in the cell; the edits are made on the
user's own text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from ..analysis.module import NEWLINE
from .edits import Edit, apply_edits
from .masking import comment_out, mask_cell
from .parsing import SyntaxFault, is_too_deep, syntax_error

#: What a cell that is indented as a whole stands under in the program: a block that is no condition and no scope.
_INDENTED = "with _:\n"
#: Words of which one is enough for a cell to be needed.
TRAINING = re.compile(
    r"\.fit\b|\.compile\b|GradientTape|apply_gradients|\.minimize\b|train_on_batch"
)
#: The names that a cell binds, as far as the lines of what is no Python tell.
BOUND = re.compile(
    r"^[ \t]*(?:def|class|import|from[ \t]+\S+[ \t]+import)[ \t]+(\w+)|^[ \t]*(\w+)[ \t]*=[^=]",
    re.MULTILINE,
)


@dataclass(frozen=True)
class JoinedCells:
    """The code cells of a notebook joined to one program, or a script as the only cell.

    Attributes:
        sources: the texts of the cells, in the order in which they run.
        labels: the number by which the user knows each cell; None for a script.
    """

    sources: tuple[str, ...]
    labels: tuple[int, ...] | None = None

    @classmethod
    def of(cls, sources: Sequence[str], labels: Iterable[int] | None = None) -> JoinedCells:
        """Join cells. Without labels they are numbered by position."""
        return cls(tuple(sources), tuple(range(len(sources)) if labels is None else labels))

    @cached_property
    def text(self) -> str:
        """All cells, one after the other, as the user wrote them."""
        return self._join_sources(self.sources)

    @cached_property
    def python(self) -> str:
        """The joined text with IPython's syntax, and cells that are not Python, masked by Python of equal length."""
        if self.labels is None:
            return self.text
        return self._join_sources(
            comment_out(masked) if cell in self.left_alone else masked
            for cell, masked in enumerate(self.masked)
        )

    @cached_property
    def masked(self) -> tuple[str, ...]:
        """Each cell as Python of the same length, where that is possible."""
        return tuple(map(mask_cell, self.sources))

    @cached_property
    def left_alone(self) -> dict[int, SyntaxFault]:
        """The cells, counted from 0, that are not Python and that no other cell needs."""
        if self.labels is None:
            return {}
        faults = {
            cell: fault
            for cell, masked in enumerate(self.masked)
            if (fault := syntax_error(self.headers[cell] + masked)) is not None
        }
        others = " ".join(masked for cell, masked in enumerate(self.masked) if cell not in faults)
        words = set(re.findall(r"\w+", others))
        return {
            cell: fault
            for cell, fault in faults.items()
            if words
            and not is_too_deep(fault)
            and not TRAINING.search(self.sources[cell])
            and not words
            & {name for names in BOUND.findall(self.sources[cell]) for name in names if name}
        }

    @cached_property
    def headers(self) -> tuple[str, ...]:
        """The text before each cell in the joined text: empty, except for a cell that is indented as a whole."""
        return tuple(
            _INDENTED
            if self.labels is not None
            and re.match(r"[ \t]+\S", masked)
            and syntax_error(masked) is not None
            and syntax_error(_INDENTED + masked) is None
            else ""
            for masked in self.masked
        )

    def _join_sources(self, sources: Iterable[str]) -> str:
        """Return cells joined to one text, each after its header and ended by a newline; a script as it is."""
        if self.labels is None:
            return "".join(sources)
        return "".join(h + s + "\n" for h, s in zip(self.headers, sources, strict=True))

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """The offset at which each cell begins in the joined text."""
        lengths = [len(h) + len(s) + 1 for h, s in zip(self.headers, self.sources, strict=True)]
        ends = accumulate(lengths, initial=0)  # one more than there are cells: there may be none
        return tuple(end + len(h) for end, h in zip(ends, self.headers, strict=False))

    def cell_of(self, offset: int) -> int:
        """Return the cell, counted from 0, that contains an offset of the joined text."""
        return bisect_right(self.starts, offset) - 1

    def locate_offset(self, offset: int) -> tuple[int | None, int, int]:
        """Return the cell's label (None in a script), and the line in the cell and the column, both from 1, of an offset in the
        joined text.
        """
        cell, lines = self.cell_of(offset), self._line_starts
        line, first = bisect_right(lines, offset), bisect_right(lines, self.starts[cell])
        label = self.labels[cell] if self.labels else None
        return label, line - first + 1, offset - lines[line - 1] + 1

    def line_start(self, line: int) -> int:
        """Return the offset at which a line, from 1, of the joined text begins."""
        return self._line_starts[line - 1]

    @cached_property
    def _line_starts(self) -> list[int]:
        """The offsets at which the lines of the joined text begin."""
        return [0, *(match.end() for match in NEWLINE.finditer(self.text))]

    def split_edits(self, edits: Iterable[Edit]) -> list[list[Edit]]:
        """Return the edits to each cell, relative to its beginning."""
        of_cells: list[list[Edit]] = [[] for _ in self.sources]
        for edit in edits:
            cell = self.cell_of(edit.start)
            of_cells[cell].append(edit.relative_to(self.starts[cell]))
        return of_cells

    def apply_edits(self, edits: Iterable[Edit]) -> list[str]:
        """Return the cells with all edits applied."""
        return list(map(apply_edits, self.sources, self.split_edits(edits)))
