"""Cells ↔ program: a notebook's code cells are one program to the rules.

The cells are joined into one text. Magics and `!` lines are masked by Python of
exactly the same length, so that every offset means the same in the joined text, in
the masked one and, less the cell's start, in the cell; the edits are made on the
user's own text.
"""

from __future__ import annotations

import ast
import re
import warnings
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from ..analysis.module import NEWLINE
from .edits import Edit, apply_edits

#: Cell magics whose body is Python that runs in the notebook's own namespace.
PYTHON_CELL_MAGICS = frozenset({"capture", "distribute", "prun", "time", "timeit", "tensor"})
#: A line magic with a Python statement behind its options, which is the program's own. Older IPython takes a
#: blank behind the `%`.
TIMED = re.compile(
    r"""%[ \t]* (?: time (?:[ \t]+--[\w-]+)*
                | timeit (?:[ \t]+(?: -[nrpv][ \t]*\S+ | -[tcqo]+ ))*
                | prun (?:[ \t]+(?: -[DlsT][ \t]*\S+ | -[rq]+ ))* )
        [ \t]+ (?=[^\s-])""",
    re.VERBOSE,
)
#: The same without its `%`: as a cell of one line IPython takes it too.
_AUTOMATIC = re.compile(TIMED.pattern.removeprefix("%"), re.VERBOSE)
#: Python of any length from one character on: a statement and a comment.
_SHORTEST = "0"
#: What a cell that is indented as a whole stands under in the program: a block that is no condition and no scope.
_INDENTED = "with _:\n"
#: Line, column and reason.
SyntaxFault = tuple[int, int, str]
TOO_DEEP: SyntaxFault = (1, 1, "an expression is nested too deeply")
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
    """The code cells of a notebook as one program, or a script as the only one.

    Attributes:
        sources: the texts of the cells, in the order in which they run.
        labels: the number by which the user knows each cell; None for a script.
    """

    sources: tuple[str, ...]
    labels: tuple[int, ...] | None = None

    @classmethod
    def of(cls, sources: Sequence[str], labels: Iterable[int] | None = None) -> JoinedCells:
        """Several cells, known by their position where they have no other number."""
        return cls(tuple(sources), tuple(range(len(sources)) if labels is None else labels))

    @cached_property
    def text(self) -> str:
        """All cells, one after the other, as the user wrote them."""
        return self._joined(self.sources)

    @cached_property
    def python(self) -> str:
        """The same, of equal length, with everything that is IPython's masked, and what is no Python at all."""
        if self.labels is None:
            return self.text
        return self._joined(
            _commented(masked) if cell in self.left_alone else masked
            for cell, masked in enumerate(self.masked)
        )

    @cached_property
    def masked(self) -> tuple[str, ...]:
        """Each cell as Python of the same length, where it can be."""
        return tuple(map(mask_cell, self.sources))

    @cached_property
    def left_alone(self) -> dict[int, SyntaxFault]:
        """The cells of a notebook, counted from 0 among these, that are no Python and that nothing else needs."""
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
            and fault is not TOO_DEEP
            and not TRAINING.search(self.sources[cell])
            and not words
            & {name for names in BOUND.findall(self.sources[cell]) for name in names if name}
        }

    @cached_property
    def headers(self) -> tuple[str, ...]:
        """What stands in front of each cell in the joined text: nothing, but for one that is indented as a whole."""
        return tuple(
            _INDENTED
            if self.labels is not None
            and re.match(r"[ \t]+\S", masked)
            and syntax_error(masked) is not None
            and syntax_error(_INDENTED + masked) is None
            else ""
            for masked in self.masked
        )

    def _joined(self, sources: Iterable[str]) -> str:
        if self.labels is None:
            return "".join(sources)
        return "".join(h + s + "\n" for h, s in zip(self.headers, sources, strict=True))

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """Where each cell begins in the joined text."""
        lengths = [len(h) + len(s) + 1 for h, s in zip(self.headers, self.sources, strict=True)]
        ends = accumulate(lengths, initial=0)  # one more than there are cells: there may be none
        return tuple(end + len(h) for end, h in zip(ends, self.headers, strict=False))

    def cell_of(self, offset: int) -> int:
        """The cell, counted from 0 among these, in which an offset stands."""
        return bisect_right(self.starts, offset) - 1

    def locate(self, offset: int) -> tuple[int | None, int, int]:
        """The label of the cell (None in a script), the line in it and the column, of an offset."""
        cell, lines = self.cell_of(offset), self._line_starts
        line, first = bisect_right(lines, offset), bisect_right(lines, self.starts[cell])
        label = self.labels[cell] if self.labels else None
        return label, line - first + 1, offset - lines[line - 1] + 1

    @cached_property
    def _line_starts(self) -> list[int]:
        return [0, *(match.end() for match in NEWLINE.finditer(self.text))]

    def split(self, edits: Iterable[Edit]) -> list[list[Edit]]:
        """The edits to each cell, counted from its own beginning."""
        of_cells: list[list[Edit]] = [[] for _ in self.sources]
        for edit in edits:
            cell = self.cell_of(edit.start)
            of_cells[cell].append(edit.shifted(self.starts[cell]))
        return of_cells

    def apply(self, edits: Iterable[Edit]) -> list[str]:
        """The cells with all edits made."""
        return list(map(apply_edits, self.sources, self.split(edits)))


def syntax_error(source: str) -> SyntaxFault | None:
    """Line, column and Python's own message, or None for valid Python; cells may await."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source, "<cell>", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except SyntaxError as error:
        return error.lineno or 1, error.offset or 1, error.msg
    except ValueError as error:
        return 1, 1, str(error)
    except (RecursionError, MemoryError):
        return TOO_DEEP
    return None


def _commented(source: str) -> str:
    """A text of the same length, each line a comment."""
    return re.sub(r"[^\n\r]+", lambda line: "#" * len(line.group()), source)


def own_statement(line: str, masked: str) -> str | None:
    """What is the program's own of a line with a magic, as Python: of `x = %time f()`, `x = f()`; None where nothing is."""
    start = next((n for n, both in enumerate(zip(line, masked, strict=True)) if len({*both}) > 1))
    if masked.startswith((" ", "0;"), start):
        return line[:start] + masked[start:].removeprefix("0;").lstrip()
    return None


def mask_cell(source: str) -> str:
    """A cell as Python of the same length and with the same lines."""
    magic = re.match(r"\s*%%[ \t]*(\w*)", source)
    if magic is not None:
        first_end = source.find("\n") if "\n" in source else len(source)
        if magic.group(1) not in PYTHON_CELL_MAGICS:
            return _commented(source)
        return "#" * first_end + mask_cell(source[first_end:])
    automatic = _AUTOMATIC.match(source)
    if automatic is not None and "\n" not in source.strip() and syntax_error(source) is not None:
        return "0;".ljust(automatic.end()) + source[automatic.end() :]
    if not re.search(r"[%!?]", source):
        return source
    return source if syntax_error(source) is None else _mask_lines(source)


def _mask_lines(source: str) -> str:
    """Mask line magics, `!` lines, `x = !ls` and `help?`, found as IPython itself finds them."""
    from IPython.core.inputtransformer2 import (
        EscapedCommand,
        HelpEnd,
        MagicAssign,
        SystemAssign,
        find_end_of_continued_line,
        make_tokens_by_line,
    )

    lines = source.splitlines(keepends=True)
    for _ in range(len(lines) + 1):
        tokens = make_tokens_by_line(lines)
        found = [
            t
            for kind in (MagicAssign, SystemAssign, EscapedCommand, HelpEnd)
            if (t := kind.find(tokens))
        ]
        if not found:
            break
        first = min(found, key=lambda t: (t.start_line, t.start_col))
        last_line = min(find_end_of_continued_line(lines, first.start_line), len(lines) - 1)
        line, column = lines[first.start_line], first.start_col
        timed = TIMED.match(line, column)
        if timed is not None:  # and what it goes on with behind a backslash stays too
            mask = "" if isinstance(first, MagicAssign) else "0;"
            lines[first.start_line] = (
                line[:column] + mask.ljust(timed.end() - column) + line[timed.end() :]
            )
            continue
        for number in range(first.start_line, last_line + 1):
            column = first.start_col if number == first.start_line else 0
            body = lines[number].rstrip("\r\n")
            mask = "#" * (len(body) - column)
            if number == first.start_line:
                mask = _SHORTEST + mask[1:]
            lines[number] = body[:column] + mask + lines[number][len(body) :]
    return "".join(lines)
