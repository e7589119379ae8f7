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
        return self.values + self.products + self.sums

    @property
    def bound(self) -> int:
        """What the operations are at most, by the theorem."""
        return max(1, self.most_per_value) * self.derivative


def jacobian_cost(
    linear: Linearization,
    made: Sequence[Stage],
    sizes: Mapping[str, int],
    data: Mapping[str, RelationData],
) -> JacobianCost:
    """The cost of the stages of a Jacobian at the sizes of a call."""
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
        most_per_value=max(_most_in_a_row(stage, width) for stage in made),
    )


def derivative_factor(program: Program) -> int:
    """What the forward derivative of a program costs at most, in costs of the program, where each of the m partial derivatives
    of an elementwise function is a call: `f`, m partial derivatives, m products and m - 1 sums, 3·m in all. A product
    with its derivative costs 4.
    """
    maps = [s.rhs for s in program.statements if isinstance(s.rhs, Map)]
    return max([4, *(3 * rhs.function.arity for rhs in maps)])


def _most_in_a_row(stage: Stage, width: int) -> int:
    """The largest number of entries that an entry of a tangent depends on."""
    _, counts = np.unique(stage.entries.keys // width, return_counts=True)
    return int(counts.max(initial=0))
