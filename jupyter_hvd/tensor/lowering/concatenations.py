"""Sums whose addends end where others begin, as concatenations: neither padded nor masked.

So are the gates of a cell (`z[i]`, `z[n+i]`, …), and the two parts of what goes round: `x[i-1]` where 0 < i, and
`x[n-1]` where i = 0. Where all that ends does so along the first axis, as in arrays of one axis, a whole sum can be put
together so: `d[i-1] - d[i]` is `-d[0]`, then the differences, then `d[n-1]` (`dataflow.part_by_part` says where it is).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import prod

from ..language.predicates import Compare, Predicate, conj, conjuncts
from .ir import Masked

LEAST = 1 << 12  # entries below which a padding costs nothing
SHORT = 16  # entries of a row, beside which a branch for each row counts
MOST = 16  # parts: XLA compiles each


@dataclass(frozen=True)
class AxisPart:
    """The addends that count where `start ≤ axis < stop`, without the conditions that say so."""

    start: int
    stop: int
    addends: tuple[Masked, ...]


@dataclass(frozen=True)
class Chain:
    """Parts that cover an axis, in order."""

    axis: str
    parts: tuple[AxisPart, ...]

    @property
    def has_ends(self) -> bool:
        """Whether some addend is other than zero on less than half of the axis."""
        lengths = Counter[Masked]()
        for p in self.parts:
            lengths.update(dict.fromkeys(p.addends, p.stop - p.start))
        return 2 * min(lengths.values(), default=0) < self.parts[-1].stop

    def reads_in_order(self) -> Iterator[tuple[str, Chain]]:
        """Yield, for each array, its reads that belong together: the first read of each part, then the second, …"""
        arrays = dict.fromkeys(m.read.array for p in self.parts for m in p.addends)
        for array in arrays:
            own = [(p, [m for m in p.addends if m.read.array == array]) for p in self.parts]
            for k in range(max(len(addends) for _, addends in own)):
                parts = (replace(p, addends=(ms[k],)) for p, ms in own if k < len(ms))
                yield array, Chain(self.axis, tuple(parts))


def find_concatenations(
    addends: Sequence[Masked],
    extents: Mapping[str, int],
    shapes: Mapping[str, Sequence[int]],
    parted: bool = False,
) -> list[Masked | Chain]:
    """Return a sum's addends, with those that concatenate along an axis as a `Chain`, at the position of the first.

    Args:
        parted: cut the whole sum, where addends begin and end. shapes: the shapes of arrays; one without is read within its
            bounds.
    """
    if parted and (whole := cut_sum(addends, extents, shapes)) is not None:
        return [whole]
    left: list[Masked | Chain] = list(addends)
    for axis, extent in extents.items():
        while (chain := _find_chain(left, axis, extent, shapes)) is not None:
            places, found = chain
            left[places[0]] = found
            left = [x for k, x in enumerate(left) if k not in places[1:]]
    return left


def cut_sum(
    addends: Sequence[Masked], extents: Mapping[str, int], shapes: Mapping[str, Sequence[int]]
) -> Chain | None:
    """Return a sum cut where its addends begin and end, if they do so only along the first axis; else None."""
    entries = prod(extents.values())
    if not extents or entries < LEAST:
        return None
    axis, *others = extents
    if entries > SHORT * extents[axis]:
        return None
    if any(_begins_or_ends(m, i, extents[i], shapes) for m in addends for i in others):
        return None
    parts = [_find_part(m, axis, extents[axis], shapes) for m in addends]
    cuts = sorted({0, extents[axis], *(x for p in parts for x in (p.start, p.stop))})
    if not 2 < len(cuts) <= MOST:
        return None
    return Chain(
        axis, tuple(AxisPart(a, b, _nonzero_between(parts, a, b)) for a, b in pairwise(cuts))
    )


def _nonzero_between(parts: Sequence[AxisPart], start: int, stop: int) -> tuple[Masked, ...]:
    """Return the addends that count on an interval."""
    return tuple(m for p in parts if p.start <= start and stop <= p.stop for m in p.addends)


def _begins_or_ends(
    addend: Masked, axis: str, extent: int, shapes: Mapping[str, Sequence[int]]
) -> bool:
    """Whether an addend does not count on the whole axis."""
    part = _find_part(addend, axis, extent, shapes)
    return (part.start, part.stop) != (0, extent)


def _find_chain(
    addends: Sequence[Masked | Chain], axis: str, extent: int, shapes: Mapping[str, Sequence[int]]
) -> tuple[list[int], Chain] | None:
    """Return the positions of the first addends that together cover an axis, and their chain; None if there are none."""
    parts = {
        k: part
        for k, addend in enumerate(addends)
        if isinstance(addend, Masked)
        if (part := _find_part(addend, axis, extent, shapes)).start < part.stop
        if (part.start, part.stop) != (0, extent)
    }
    for first in (k for k, part in parts.items() if part.start == 0):
        places = [first]
        while (stop := parts[places[-1]].stop) < extent:
            after = (k for k, p in parts.items() if p.start == stop and k not in places)
            place = next(after, None)
            if place is None:
                break
            places.append(place)
        else:
            order = sorted(places)
            return order, Chain(axis, tuple(parts[k] for k in places))
    return None


def _find_part(
    addend: Masked, axis: str, extent: int, shapes: Mapping[str, Sequence[int]]
) -> AxisPart:
    """Return an addend with the interval of an axis on which it may be nonzero; an empty interval if nowhere."""
    start, stop = 0, extent
    shape = shapes.get(addend.read.array, ())
    for a, n in zip(addend.read.indices, shape, strict=False):
        if a.names == {axis} and a.coefficient(axis) == 1:
            start, stop = max(start, -a.constant), min(stop, n - a.constant)
    left: list[Predicate] = []
    for q in conjuncts(addend.mask):
        ends = _bounds_on_axis(q, axis)
        if ends is None:
            left.append(q)
            continue
        low, high = ends
        start = start if low is None else max(start, low)
        stop = stop if high is None else min(stop, high)
    if start >= stop:
        return AxisPart(0, 0, ())
    return AxisPart(start, stop, (replace(addend, mask=conj(*left)),))


def _bounds_on_axis(q: Predicate, axis: str) -> tuple[int | None, int | None] | None:
    """Return the interval in which a condition on one axis holds; None if it says something else."""
    if not isinstance(q, Compare) or q.names != {axis}:
        return None
    k, c = q.difference.coefficient(axis), q.difference.constant
    if abs(k) != 1:
        return None
    if q.op == "=":
        return -k * c, -k * c + 1
    least = 1 if q.op == "<" else 0  # of k·axis + c
    return (least - c, None) if k == 1 else (None, c - least + 1)
