"""Predicates evaluated at many points at once: arrays over named axes, by NumPy or by JAX."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any

from ..language.affine import Affine
from ..language.predicates import And, Compare, Exists, Or, Predicate, Related, substitute

Axes = tuple[str, ...]
Aligned = tuple[Any, Axes]  # an array, and what its axes are called

_COMPARED: Mapping[str, Callable[[Any], Any]] = {
    "<": lambda difference: difference > 0,
    "≤": lambda difference: difference >= 0,
    "=": lambda difference: difference == 0,
}


class Points(ABC):
    """The points of a box of named axes. A value computed at each point has only the axes on which it depends."""

    @abstractmethod
    def affine_values(self, a: Affine) -> Aligned:
        """Evaluate an affine expression."""

    @abstractmethod
    def is_member(self, relation: str, arguments: tuple[Affine, ...]) -> Aligned:
        """Return where index tuples are in a relation, with the axes of the result; False outside its array."""

    @abstractmethod
    def add_axis(self, axis: str, extent: int) -> Points:
        """Return the points with another axis."""

    @abstractmethod
    def broadcast_together(self, values: Sequence[Aligned]) -> tuple[list[Any], Axes]:
        """Broadcast arrays to a common rank: length 1 on axes that an array does not have."""

    def holds_at(self, p: Predicate) -> Aligned:
        """Return, for each point, whether `p` holds, with the axes of the result."""
        match p:
            case Compare(op):
                difference, axes = self.affine_values(p.difference)
                return _COMPARED[op](difference), axes
            case Related(relation, arguments, negated):
                inside, axes = self.is_member(relation, arguments)
                return (~inside if negated else inside), axes
            case And(parts) | Or(parts):
                if not parts:
                    zero, axes = self.affine_values(Affine.of(0))
                    return (zero == 0 if isinstance(p, And) else zero != 0), axes
                values, axes = self.broadcast_together([self.holds_at(part) for part in parts])
                return reduce(operator.and_ if isinstance(p, And) else operator.or_, values), axes
            case Exists(index, size, Compare("=") as equality) if index not in size.names:
                return self._is_multiple(index, max(0, size.constant), equality.difference)
            case Exists(index, size, body):
                extent, bound = max(0, size.constant), f"∃{index}"
                inner = self.add_axis(bound, extent)
                inside, axes = inner.holds_at(substitute(body, {index: Affine.of(bound)}))
                if bound not in axes:
                    return inside & (extent > 0), axes
                left = tuple(axis for axis in axes if axis != bound)
                return inside.any(axis=axes.index(bound)), left
        raise TypeError(p)

    def _is_multiple(self, index: str, extent: int, difference: Affine) -> Aligned:
        """Return where `∃ index:extent. difference = 0` holds, by a division instead of trying all values."""
        k = difference.coefficient(index)
        if k == 0:  # it stands on both sides
            rest, axes = self.affine_values(difference)
            return (rest == 0) & (extent > 0), axes
        rest, axes = self.affine_values((difference - Affine.of(index) * k) * (-1 if k > 0 else 1))
        k = abs(k)
        return (rest % k == 0) & (rest >= 0) & (rest < k * extent), axes
