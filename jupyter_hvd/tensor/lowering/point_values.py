"""How the values of a sparse Jacobian's entries are computed: the plan that JAX runs.

The entry of a variable at a point is an expression over entries of others.
`X[b]`, where X is computed entry by entry and only where a relation holds, is computed at the points at which it is read: so no
array over all indices is made of what has as many entries as the relation has tuples.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from ..cost.counting import RelationData
from ..language.affine import Affine
from ..language.function import Function
from ..language.predicates import TRUE, Predicate, substitute
from ..language.terms import Number, index_names
from ..ssa.program import Addition, Constant, Contraction, Factor, Input, Map, Rhs, support
from .entries import Points, Stage, affine_column, holds_at_points

SAMPLE = 64  # entries of an array that it is looked up by

Operation = Factor | Function | Number | Affine | str  # of a string "+" or "*"


class Node(NamedTuple):
    """One operation at each point, on the results of others by their number: a sum of which each addend counts where
    its mask holds; or a product, a function, an entry or a number, where the one mask does.
    """

    operation: Operation
    arguments: tuple[int, ...]
    masks: tuple[Predicate, ...]


def value_nodes(statements: Mapping[str, Rhs], factor: Factor) -> tuple[Node, ...]:
    """Return the operations that compute an entry, which is the last one."""
    nodes: list[Node] = []
    known: dict[Factor, int] = {}

    def add_node(node: Node) -> int:
        nodes.append(node)
        return len(nodes) - 1

    def visit_read(read: Factor) -> int:
        if read not in known:
            known[read] = make_node(read)
        return known[read]

    def make_node(read: Factor) -> int:
        rhs = statements[read.name]
        at = dict(zip(index_names(rhs.gens), read.indices, strict=True))
        if isinstance(rhs, Constant):
            value = rhs.value.substitute(at) if isinstance(rhs.value, Affine) else rhs.value
            return add_node(Node(value, (), (TRUE,)))
        if not _is_sparse(rhs):
            return add_node(Node(read, (), (TRUE,)))
        match rhs:
            case Addition():
                sides = tuple([visit_read(Factor(x, read.indices)) for x in (rhs.left, rhs.right)])
                masks = substitute(rhs.left_mask, at), substitute(rhs.right_mask, at)
                return add_node(Node("+", sides, masks))
            case Map():
                given = tuple([visit_read(Factor(x, read.indices)) for x in rhs.arguments])
                return add_node(Node(rhs.function, given, (substitute(rhs.mask, at),)))
            case Contraction():
                given = tuple([visit_read(f.substitute(at)) for f in rhs.factors])
                return add_node(Node("*", given, (substitute(rhs.mask, at),)))
        raise TypeError(rhs)

    visit_read(factor)
    return tuple(nodes)


def _is_sparse(rhs: Rhs) -> bool:
    """Whether a variable of several dimensions is computed entry by entry where a relation holds."""
    if (
        len(rhs.gens) < 2
        or isinstance(rhs, Input)
        or not isinstance(rhs, Addition | Map | Contraction)
    ):
        return False
    return bool(support(rhs).relations) and not (isinstance(rhs, Contraction) and rhs.sums)


class PointStep(NamedTuple):
    """An operation at all points of an addend: a `Node`, with arrays by their number.

    For an entry, `value` is the number of its array and `places` its indices; no indices if the array has the entries of the
    points, in order.
    """

    operation: Operation | None
    arguments: tuple[int, ...]
    masks: tuple[int | None, ...]
    value: int = 0
    places: tuple[int, ...] = ()


class Added(NamedTuple):
    """An addend of a tangent: a stage by its number, positions, steps, the last of which gives the factor, and slots; None or
    empty for those that there are not. `inside` may say which points count.
    """

    source: int | None
    position: int | None
    steps: tuple[PointStep, ...]
    slot: int | None
    inside: int | None = None


class Summed(NamedTuple):
    """A stage: the number of its entries, and what they are the sums of."""

    size: int
    addends: tuple[Added, ...]


class Contents:
    """An array as a dictionary key: hashed by some of its entries, equal if all are."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def copied(self) -> Contents:
        """Return a key that does not change with the array."""
        return Contents(np.array(self.array))

    def __hash__(self) -> int:
        some = self.array.ravel()[:: max(1, self.array.size // SAMPLE)]
        return hash((self.array.shape, self.array.dtype.str, some.tobytes()))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Contents) or self.array.dtype != other.array.dtype:
            return False
        return np.array_equal(self.array, other.array)


@dataclass
class Listed:
    """Arrays by number; equal arrays have one number."""

    arrays: list[Any] = field(default_factory=list)
    known: dict[Contents, int] = field(default_factory=dict)

    @staticmethod
    def of(arrays: Sequence[Any]) -> Listed:
        """Return arrays numbered by their position."""
        return Listed([*arrays], {Contents(a): k for k, a in enumerate(arrays)})

    def __call__(self, array: Any) -> int:
        key = Contents(array)
        if key not in self.known:
            self.known[key] = len(self.arrays)
            self.arrays.append(array)
        return self.known[key]

    def number_or_none(self, array: Any) -> int | None:
        """Return an array's number; None for None."""
        return None if array is None else self(array)


Reading = tuple[str, int, int]  # an entry: of a tangent, the addend, and the node
Values = Callable[[Reading, Factor], tuple[int, bool]]


def sum_stages(
    stages: Sequence[Stage],
    nodes: Mapping[tuple[str, int], Sequence[Node]],
    data: Mapping[str, RelationData],
    sizes: Mapping[str, int],
    values: Values,
) -> tuple[tuple[Summed, ...], tuple[Any, ...]]:
    """Return the plan for the stages, and the arrays that it reads.

    Args:
        nodes: the operations of each addend's value, by its tangent and number.
        values: the number of the array that an entry is from, and whether that is a full array.
    """
    listed = Listed()
    order = {stage.name: k for k, stage in enumerate(stages)}
    at_size = {x: Affine.of(n) for x, n in sizes.items()}

    def steps_of(stage: Stage, k: int, points: Points) -> tuple[PointStep, ...]:
        found: dict[Predicate, int | None] = {}

        def add_mask(p: Predicate) -> int | None:
            if p not in found:
                holds = holds_at_points(
                    substitute(p, at_size), points.binders, points.columns, points.count, data
                )
                found[p] = None if holds.all() else listed(holds)
            return found[p]

        made = []
        for j, (operation, arguments, masks) in enumerate(nodes[stage.name, k]):
            step = PointStep(operation, arguments, tuple(map(add_mask, masks)))
            if isinstance(operation, Affine):
                at = affine_column(operation.substitute(at_size), points.columns, points.count)
                step = step._replace(operation=None, places=(listed(at),))
            elif isinstance(operation, Factor):
                value, is_whole = values((stage.name, k, j), operation)
                indices = [a.substitute(at_size) for a in operation.indices] if is_whole else []
                at = [listed(affine_column(a, points.columns, points.count)) for a in indices]
                step = step._replace(operation="[]", value=value, places=tuple(at))
            made.append(step)
        return tuple(made)

    plan = []
    for stage in stages:
        addends = []
        for k, points in enumerate(stage.addends):
            if not points.count:
                continue
            source = None if points.source is None else order[points.source]
            steps = () if points.value is None else steps_of(stage, k, points)
            at = listed.number_or_none(points.position), listed.number_or_none(points.slot)
            addends.append(Added(source, at[0], steps, at[1]))
        plan.append(Summed(stage.entries.count, tuple(addends)))
    arrays = (a if a.dtype == bool else a.astype(np.int32) for a in listed.arrays)
    return tuple(plan), tuple(arrays)
