"""Costs of array-level functions, as `language/definition.Work`."""

from __future__ import annotations

from collections.abc import Sequence

from ..language.affine import Affine
from ..language.definition import Work
from ..language.predicates import TRUE, Predicate, compare


def operations_where(
    sizes: Sequence[Affine],
    condition: Predicate = TRUE,
    *,
    products: int = 1,
    sums: int = 1,
    calls: int = 0,
) -> tuple[Work, ...]:
    """Count operations at each point of a box at which a condition on its indices `ε0`, `ε1`, … holds."""
    ranges = tuple((f"ε{k}", n) for k, n in enumerate(sizes))
    counts = {"multiplications": products, "additions": sums, "calls": calls}
    return tuple(Work(kind, ranges, condition, n) for kind, n in counts.items() if n)


def below_condition(i: str, j: str) -> Predicate:
    """Return `i < j` for two indices."""
    return compare("<", i, j)
