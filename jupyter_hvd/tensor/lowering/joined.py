"""Addends of a sum that end where others begin: put one after the other they are one array, and neither padded nor masked.

So are the gates of a cell (`z[i]`, `z[n+i]`, …), and the two parts of what goes round: `x[i-1]` where 0 < i, and
`x[n-1]` where i = 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ..language.predicates import Compare, Predicate, conj, conjuncts
from .ir import Masked


@dataclass(frozen=True)
class Part:
    """An addend that is zero outside of `start ≤ axis < stop`, without the conditions that say so."""

    start: int
    stop: int
    addend: Masked


@dataclass(frozen=True)
class Chain:
    """Parts that cover an axis, in order."""

    axis: str
    parts: tuple[Part, ...]


def joined(
    addends: Sequence[Masked],
    extents: Mapping[str, int],
    shapes: Mapping[str, Sequence[int]],
) -> list[Masked | Chain]:
    """A sum's addends, those that are parts of a whole together, where the first of them was. An array whose shape is
    not known is read within it.
    """
    left: list[Masked | Chain] = list(addends)
    for axis, extent in extents.items():
        while (chain := _chain(left, axis, extent, shapes)) is not None:
            places, found = chain
            left[places[0]] = found
            left = [x for k, x in enumerate(left) if k not in places[1:]]
    return left


def _chain(
    addends: Sequence[Masked | Chain], axis: str, extent: int, shapes: Mapping[str, Sequence[int]]
) -> tuple[list[int], Chain] | None:
    """The first parts that cover an axis, and their places among the addends."""
    parts = {
        k: part
        for k, addend in enumerate(addends)
        if isinstance(addend, Masked)
        if (part := _part(addend, axis, extent, shapes)) is not None
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


def _part(
    addend: Masked, axis: str, extent: int, shapes: Mapping[str, Sequence[int]]
) -> Part | None:
    """An addend as a part of an axis; None where it is all of it, or nothing."""
    start, stop = 0, extent
    shape = shapes.get(addend.read.array, ())
    for a, n in zip(addend.read.indices, shape, strict=False):
        if a.names == {axis} and a.coefficient(axis) == 1:
            start, stop = max(start, -a.constant), min(stop, n - a.constant)
    left: list[Predicate] = []
    for q in conjuncts(addend.mask):
        ends = _ends(q, axis)
        if ends is None:
            left.append(q)
            continue
        low, high = ends
        start = start if low is None else max(start, low)
        stop = stop if high is None else min(stop, high)
    if start >= stop or (start, stop) == (0, extent):
        return None
    return Part(start, stop, replace(addend, mask=conj(*left)))


def _ends(q: Predicate, axis: str) -> tuple[int | None, int | None] | None:
    """Where a condition on an axis alone begins to hold and ends; None where that is not all it says."""
    if not isinstance(q, Compare) or q.names != {axis}:
        return None
    k, c = q.difference.coefficient(axis), q.difference.constant
    if abs(k) != 1:
        return None
    if q.op == "=":
        return -k * c, -k * c + 1
    least = 1 if q.op == "<" else 0  # of k·axis + c
    return (least - c, None) if k == 1 else (None, c - least + 1)
