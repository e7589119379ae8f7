"""What a sparse Jacobian costs, counted, and what that is at most (docs/jacobians.md, "A bound")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from ..cost.counting import RelationData, cost_at
from ..derivative.tangents import Linearization
from ..ssa.convert import to_term
from ..ssa.program import Map, Program, pair_tree
from .entries import Stage


@dataclass(frozen=True)
class JacobianCost:
    """The operations of a Jacobian: those of the `values` that entries are multiplied by, and the `products` and `sums` of
    entries. `derivative` counts the operations of the forward derivative in one direction, the value included; `most_per_value`
    is the largest number of entries of the parameter that one value on the way depends on.
    """

    entries: int
    values: int
    products: int
    sums: int
    derivative: int
    most_per_value: int

    @property
    def operations(self) -> int:
        """All operations of the Jacobian."""
        return self.values + self.products + self.sums

    @property
    def bound(self) -> int:
        """The theorem's upper bound on the operations."""
        return max(1, self.most_per_value) * self.derivative


def jacobian_cost(
    linear: Linearization,
    made: Sequence[Stage],
    sizes: Mapping[str, int],
    data: Mapping[str, RelationData],
) -> JacobianCost:
    """Count the operations of a Jacobian's stages at the sizes of a call."""
    known = frozenset(linear.tangents)
    kept = tuple(s for s in linear.program.statements if s.name not in known)
    read = (*dict.fromkeys(linear.factor_variables()),)
    values = cost_at(to_term(Program(kept, pair_tree(read))), sizes, data).total if read else 0
    width = max(1, prod(max(0, n.evaluate(sizes)) for n in linear.argument))
    points = [p for stage in made for p in stage.addends]
    return JacobianCost(
        entries=made[-1].entries.count,
        values=values,
        products=sum(p.count for p in points if p.source is not None and p.value is not None),
        sums=sum(p.count for p in points) - sum(stage.entries.count for stage in made),
        derivative=cost_at(to_term(linear.program), sizes, data).total,
        most_per_value=max(_most_entries_in_row(stage, width) for stage in made),
    )


def derivative_factor(program: Program) -> int:
    """Return what the forward derivative of a program costs at most, as a multiple of the program's cost.

    An elementwise function of m arguments costs 3·m: itself, m partial derivatives, m products and m - 1 sums. A product with
    its derivative costs 4.
    """
    maps = [s.rhs for s in program.statements if isinstance(s.rhs, Map)]
    return max([4, *(3 * rhs.function.arity for rhs in maps)])


def _most_entries_in_row(stage: Stage, width: int) -> int:
    """Return the largest number of entries on which one entry of a tangent depends."""
    _, counts = np.unique(stage.entries.keys // width, return_counts=True)
    return int(counts.max(initial=0))
