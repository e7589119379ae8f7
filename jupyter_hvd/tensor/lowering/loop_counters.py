"""The iteration that a loop is in, inside its body: an index that a kernel gets as data.

The plan of a body is made once for all iterations. So the loop's index is not a number in it, but an index
array of one entry and no dimensions, and what the body reads at the index is looked up: `x[k]` is
`Σ τ:n. [turn(τ)]·x[τ]`, which has one term.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from ..language.affine import Affine
from ..language.predicates import TRUE, Predicate, Related, conj, conjuncts, exists, substitute
from ..language.terms import Binder, Binders
from ..polyhedral.sets import simplify
from ..ssa.program import (
    Addition,
    Constant,
    Contraction,
    Factor,
    Map,
    Program,
    Recurrence,
    Statement,
    names_in_masks_and_indices,
    pointwise,
    support,
)


def counter_relation(index: str) -> str:
    """Return the index array without axes that holds the present iteration of a loop over this index."""
    return f"{index}·turn"


def counter_index(relation: str) -> str:
    """Return the index of the loop whose iteration such an index array holds."""
    return relation.removesuffix("·turn")


def look_up_counter(program: Program, index: str, count: int) -> Program:
    """Return the body of a loop of `count` iterations with its index looked up as data."""
    supports = {s.name: simplify(support(s.rhs), s.rhs.gens) for s in program.statements}
    turns = _Iterations(index, Binder(f"τ{index}", Affine.of(count)), supports)
    made = (t for s in program.statements for t in turns.add_statement(s))
    return Program(tuple(made), program.output)


class _Iterations:
    def __init__(self, index: str, binder: Binder, supports: Mapping[str, Predicate]) -> None:
        self.index = index
        self.binder = binder
        self.supports = supports
        self.turn = Affine.of(binder.name)
        self.at = {index: self.turn}
        self.now = Related(counter_relation(index), (self.turn,))

    def add_statement(self, s: Statement) -> Iterator[Statement]:
        """Yield the statement with the index looked up, after further statements that it needs."""
        match s.rhs:
            case Constant(gens, Affine() as value) if self.index in value.names:
                every = Constant((self.binder, *gens), value.substitute(self.at))
                yield Statement(f"{s.name}·{self.index}", every, s.origin)
                read = Factor(f"{s.name}·{self.index}", (self.turn, *pointwise(gens)))
                yield replace(s, rhs=Contraction(gens, (self.binder,), self.now, (read,)))
            case Addition(gens, p0, x0, p1, x1) as rhs if self.index in p0.names | p1.names:
                sides = []
                for side, (p, x) in enumerate(((p0, x0), (p1, x1))):
                    if self.index not in p.names:
                        sides.append((p, x))
                        continue
                    if self.is_zero_outside(p, x, gens):  # it is zero elsewhere
                        sides.append((TRUE, x))
                        continue
                    read = Factor(x, pointwise(gens))
                    view = Contraction(
                        gens, (self.binder,), self.condition_in_iteration(p), (read,)
                    )
                    sides.append((TRUE, f"{s.name}·{self.index}{side}"))
                    yield Statement(sides[-1][1], view, s.origin)
                (p0, x0), (p1, x1) = sides
                yield replace(s, rhs=replace(rhs, left_mask=p0, left=x0, right_mask=p1, right=x1))
            case Map(_, p, _, _) as rhs if self.index in p.names:
                yield replace(
                    s, rhs=replace(rhs, mask=exists(*self.binder, self.condition_in_iteration(p)))
                )
            case Contraction() as rhs if self.index in names_in_masks_and_indices(rhs):
                factors = tuple([f.substitute(self.at) for f in rhs.factors])
                sums = (*rhs.sums, self.binder)
                yield replace(
                    s,
                    rhs=Contraction(rhs.gens, sums, self.condition_in_iteration(rhs.mask), factors),
                )
            case Recurrence() as rhs:
                body = look_up_counter(rhs.body, self.index, self.binder.size.constant)
                yield replace(s, rhs=replace(rhs, body=body))
            case _:
                yield s

    def is_zero_outside(self, p: Predicate, x: str, gens: Binders) -> bool:
        """Whether a variable is zero where p does not hold, in every iteration."""
        known = self.supports[x]
        around = (Binder(self.index, self.binder.size), *gens)
        left = [q for q in conjuncts(p) if q not in conjuncts(known)]
        return all(not q.relations and simplify(q, around) == TRUE for q in left)

    def condition_in_iteration(self, p: Predicate) -> Predicate:
        """Return a condition for the present iteration."""
        return conj(self.now, substitute(p, self.at))
