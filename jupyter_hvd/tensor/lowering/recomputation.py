"""Loops in reverse whose values are computed again, block by block.

A loop in reverse takes from each iteration of a loop of values what that has kept, the last first. Where it
alone reads that loop, which computes another's values again (`Recurrence.again`), the whole of it need
not be there: the first loop keeps what each block of iterations begins with, and the iterations of one block are
computed again at a time. The operations are the same in another order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isqrt, prod

from ..language.affine import Affine
from ..language.predicates import TRUE
from ..language.terms import in_ranges
from ..ssa.program import (
    Contraction,
    Part,
    Program,
    Recurrence,
    Rhs,
    flatten_output,
    operands,
    pointwise,
)
from .ir import ReusedRow, extents_of

FEW = 4  # turns that are not worth a block


@dataclass(frozen=True)
class Again:
    """How a loop in reverse gets its values: recomputed by `loop`, from what the blocks of `source`, each of `length`
    iterations, began with.

    `taken` are the rows that are recomputed, and `names` the variables that are not made.
    """

    source: str
    loop: Recurrence
    length: int
    taken: tuple[ReusedRow, ...]
    names: frozenset[str]


def find_blockwise_loops(program: Program) -> dict[str, Again]:
    """Return the loops in reverse that run block by block, by name."""
    found = {}
    for s in program.statements:
        if isinstance(s.rhs, Recurrence) and s.rhs.again is not None:
            for name, again in _find_reversing(program, s.name, s.rhs):
                found[name] = again
    return found


def _find_reversing(program: Program, name: str, loop: Recurrence) -> Iterator[tuple[str, Again]]:
    """Yield a loop that reads the histories of another one, iteration by iteration in reverse."""
    assert loop.again is not None
    turns = loop.size.constant
    if turns < FEW:
        return
    parts = {s.name: s.rhs for s in program.statements if _is_part(s.rhs, name)}
    views = {s.name: s.rhs for s in program.statements if {*operands(s.rhs)} & parts.keys()}
    backwards = {
        x: after for x, rhs in views.items() if (after := _reads_after(rhs, turns)) is not None
    }
    names = frozenset((name, *parts, *views))
    readers = [s for s in program.statements if {*operands(s.rhs)} & views.keys()]
    if (
        len(backwards) < len(views)
        or len(readers) != 1
        or names & {*flatten_output(program.output)}
    ):
        return
    (reader,) = readers
    back = reader.rhs
    if not isinstance(back, Recurrence) or back.size != loop.size:
        return
    if views.keys() & {*back.starts, *back.wholes, back.again}:
        return
    taken = []
    for row, x in enumerate(back.rows):
        if x in views:
            part = parts[operands(views[x])[0]]
            assert isinstance(part, Part)
            taken.append(ReusedRow(row, part.place, backwards[x]))
    carried = program[loop.again]
    assert isinstance(carried, Recurrence)
    length = block_length(turns, _carried_count(carried), _carried_count(loop))
    yield reader.name, Again(loop.again, loop, length, tuple(taken), names)


def _is_part(rhs: Rhs, source: str) -> bool:
    """Whether a variable is a history of a loop."""
    return isinstance(rhs, Part) and rhs.source == source


def _reads_after(rhs: Rhs, turns: int) -> bool | None:
    """Whether `⊞k, g. X[n-1-k, g]` (values before iterations, False) or `⊞k, g. X[n-k, g]` (after, True), in reverse; None for
    neither.
    """
    if not isinstance(rhs, Contraction) or rhs.sums or rhs.mask != TRUE or len(rhs.factors) != 1:
        return None
    (first, *rest), (turn, *inner) = rhs.factors[0].indices, pointwise(rhs.gens)
    if rest != inner or in_ranges(rhs.gens)[0] != Affine.of(turns):
        return None
    last = Affine.of(turns) - turn
    return {last - 1: False, last: True}.get(first)


def _carried_count(loop: Recurrence) -> int:
    """Return how many numbers a loop carries."""
    return sum(prod(extents_of(gens)) for gens in loop.carried)


def block_length(turns: int, carried: int, kept: int) -> int:
    """Return the iterations per block for which the stored numbers are fewest.

    What the blocks begin with, `carried` numbers each, and the values of one block, `kept` per iteration, together are at most
    `2·√(turns·carried·kept)` plus one block and one iteration.
    """
    square = -(-turns * max(1, carried) // max(1, kept))
    return min(turns, isqrt(square - 1) + 1)


def find_block_variables(found: Mapping[str, Again]) -> frozenset[str]:
    """Return the variables that are only made within blocks."""
    return frozenset[str]().union(*(again.names for again in found.values()))


def given_rows(rows: Sequence[str], again: Again) -> tuple[int, ...]:
    """Return which rows of a loop in reverse come from outside of it."""
    taken = {kept.row for kept in again.taken}
    return tuple(j for j in range(len(rows)) if j not in taken)


__all__ = ["Again", "block_length", "find_block_variables", "find_blockwise_loops", "given_rows"]
