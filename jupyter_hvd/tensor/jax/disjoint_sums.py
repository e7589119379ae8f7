"""Sums whose parts stand side by side along an axis, each in a span of its own: `[i<1]·x[n-1] + [1≤i]·x[i-1]`.

So are `np.roll` and `np.concatenate` written in the language. Each part is computed in its span alone and laid beside the others,
instead of everywhere, masked and added; where every part reads only what stands at its own place, a mask costs less.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

from ..language.affine import Affine
from ..language.predicates import Compare, Predicate, conjuncts
from ..language.predicates import substitute as substitute_predicate
from ..language.terms import Add, At, Guard, Term, strip_guards, substitute


class Span(NamedTuple):
    """What stands at `start ≤ i < end` of an axis: there i is the place within the span."""

    start: int
    end: int
    term: Term


def find_spans(
    e: Term, extents: Mapping[str, int], sizes: Mapping[str, Affine]
) -> tuple[str, list[Span]] | None:
    """Return the axis and the spans of a sum whose parts stand side by side along it, in order; None if it has no such parts."""
    parts = [*_addends(e)]
    if len(parts) < 2 or not all(isinstance(part, Guard) for part in parts):
        return None
    found, axes = [], set[str]()
    for part in parts:
        p, body = strip_guards(part)
        where = _bounds_of_condition(substitute_predicate(p, sizes), extents)
        if where is None:
            return None
        axis, start, end = where
        axes.add(axis)
        if start < end:
            here = {axis: Affine.of(axis) + start}
            found.append(Span(start, end, substitute(body, indices=here)))
    found.sort(key=lambda span: span.start)
    if len(axes) != 1 or any(a.end > b.start for a, b in pairwise(found)):
        return None
    (axis,) = axes
    return (axis, found) if any(_reads_elsewhere(part, axis) for part in parts) else None


def _reads_elsewhere(e: Term, axis: str) -> bool:
    """Return whether anything is read at other places than the index itself, along an axis with several entries."""
    if isinstance(e, At) and axis in e.index.names and e.index != Affine.of(axis):
        return True
    return any(_reads_elsewhere(child, axis) for child in e.children)


def _addends(e: Term) -> Iterator[Term]:
    """Yield the addends of a sum."""
    if isinstance(e, Add):
        yield from _addends(e.left)
        yield from _addends(e.right)
    else:
        yield e


def _bounds_of_condition(p: Predicate, extents: Mapping[str, int]) -> tuple[str, int, int] | None:
    """Return the axis that a condition bounds, and from where to where it holds; None if it is not made of bounds for one
    axis.
    """
    bounds = [*conjuncts(p)]
    if len(p.names) != 1 or not all(isinstance(q, Compare) for q in bounds):
        return None
    (axis,) = p.names
    if axis not in extents:
        return None
    start, end = 0, extents[axis]
    for q in bounds:
        assert isinstance(q, Compare)
        k, c = q.difference.coefficient(axis), q.difference.constant
        if abs(k) != 1:
            return None
        if q.op == "<":
            c -= 1  # k·i + c > 0, as whole numbers
        if k == 1 or q.op == "=":
            start = max(start, -c * k)
        if k == -1 or q.op == "=":
            end = min(end, -c * k + 1)
    return axis, start, end
