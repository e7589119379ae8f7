"""The values that loops store in each iteration for their reverse."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil, sqrt

from ..language.affine import Affine
from ..ssa.program import Part, Recurrence, operands
from .evaluator import Evaluator
from .statements import Line, ProgramCosts, Sizes


@dataclass(frozen=True)
class StoredValues:
    """The histories that the reverse of one loop reads: `whole` by default, `carried` with `checkpoint=True`."""

    iterations: Affine
    whole: tuple[Line, ...]
    carried: tuple[Line, ...]

    def stored_count(self, evaluate: Evaluator, sizes: Sizes) -> tuple[int, int, int] | None:
        """Return the number of stored values by default, with `checkpoint=True`, and in blocks: see `docs/recurrences.md`."""
        iterations = self.iterations.evaluate(sizes)
        counts = [
            [evaluate(line.entries, sizes) for line in lines]
            for lines in (self.whole, self.carried)
        ]
        if iterations < 1 or any(n is None for part in counts for n in part):
            return None
        whole, carried = (sum(n for n in part if n is not None) for part in counts)
        if whole == 0:
            return 0, 0, 0
        length = max(1, ceil(sqrt(iterations * carried / whole)))
        blocks = ceil(iterations / length) * carried / iterations + length * whole / iterations
        return whole, carried, min(whole, ceil(blocks))


def list_stored_values(gradient: ProgramCosts, carried: ProgramCosts) -> tuple[StoredValues, ...]:
    """Return the loops of a gradient that read an earlier loop's histories, in it and with `checkpoint=True`."""
    first, second = _reversed_loops(gradient), _reversed_loops(carried)
    if len(first) != len(second):
        return ()
    return tuple(StoredValues(size, a, b) for (size, a), (_, b) in zip(first, second, strict=True))


def _reversed_loops(gradient: ProgramCosts) -> list[tuple[Affine, tuple[Line, ...]]]:
    """Return the loops of a gradient that run in reverse: their iterations, and the stored arrays that they read."""
    lines = {line.name: line for line in gradient.lines}
    found = []
    for line in gradient.lines:
        if isinstance(line.rhs, Recurrence):
            rows = tuple(lines[x] for x in line.rhs.rows if _is_history(lines[x], lines))
            if rows:
                found.append((line.rhs.size, rows))
    return found


def _is_history(line: Line, lines: Mapping[str, Line]) -> bool:
    """Whether a statement is a loop's history, in order or reversed."""
    read = operands(line.rhs)
    return isinstance(line.rhs, Part) or (len(read) == 1 and _is_history(lines[read[0]], lines))
