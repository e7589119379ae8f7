"""Costs as numbers: formulas evaluated at sizes, and points over data counted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

from ..language.affine import Affine
from ..language.predicates import substitute as substitute_predicate
from ..language.terms import Binder
from ..reference.evaluate import Environment
from . import counting
from .counting import RelationData
from .formula import Count, Formula
from .loops import Sizes

#: An index space beyond this is not searched point by point.
SEARCHED = 100_000_000


@dataclass
class Evaluator:
    """Evaluates formulas at sizes with the relations' data; each count over data is computed once."""

    data: Mapping[str, RelationData]

    def __post_init__(self) -> None:
        self._counted: dict[tuple[Count, tuple[tuple[str, int], ...]], int | None] = {}

    def __call__(self, formula: Formula, sizes: Sizes) -> int | None:
        """None where data that nobody has given decide, or where there are too many points to
        search.
        """
        total = Formula(formula.pieces).evaluate(Environment(integers=dict(sizes)))
        for count in formula.counts:
            number = self._count_points(count, sizes)
            if number is None:
                return None
            total += count.times * number
        return total

    def sum_formulas(self, formulas: Iterable[Formula], sizes: Sizes) -> int | None:
        """Return the sum of the formulas' values; None if one has no value."""
        numbers = [self(formula, sizes) for formula in formulas]
        return None if None in numbers else sum(n for n in numbers if n is not None)

    def _count_points(self, count: Count, sizes: Sizes) -> int | None:
        """Return a count over data at these sizes, cached; None if it cannot be counted."""
        needed = count.condition.names.union(*(n.names for _, n in count.binders))
        at = {name: sizes[name] for name in sorted(needed & sizes.keys())}
        key = (count, tuple(at.items()))
        if key not in self._counted:
            self._counted[key] = self._count_by_enumeration(count, at)
        return self._counted[key]

    def _count_by_enumeration(self, count: Count, at: Sizes) -> int | None:
        """Count points with the relations' data; None if data are missing or the range is too large."""
        names = count.condition.relations
        if not names <= self.data.keys():
            return None
        values = {name: Affine.of(n) for name, n in at.items()}
        binders = tuple(Binder(i, n.substitute(values)) for i, n in count.binders)
        if prod(max(1, n.evaluate({})) for _, n in binders) > SEARCHED:
            return None
        return counting.count_points(
            binders, substitute_predicate(count.condition, values), self.data
        )
