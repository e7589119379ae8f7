"""A program at the sizes of one call: every extent and bound an integer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..language.affine import Affine
from ..language.predicates import Predicate
from ..language.predicates import substitute as substitute_predicate
from ..language.terms import Binders
from ..ssa.program import Addition, Constant, Contraction, Factor, Input, Map, Program, Rhs

Sizes = Mapping[str, Affine]


def at_sizes(program: Program, sizes: Mapping[str, int]) -> Program:
    """The program with integers for its sizes."""
    known = {name: Affine.of(value) for name, value in sizes.items()}
    statements = tuple(replace(s, rhs=_rhs(s.rhs, known)) for s in program.statements)
    return Program(statements, program.output)


def _binders(binders: Binders, sizes: Sizes) -> Binders:
    return tuple((i, Affine.of(max(0, n.substitute(sizes).evaluate({})))) for i, n in binders)


def _rhs(rhs: Rhs, sizes: Sizes) -> Rhs:
    gens = _binders(rhs.gens, sizes)

    def at(p: Predicate) -> Predicate:
        return substitute_predicate(p, sizes)

    match rhs:
        case Input():
            return replace(rhs, gens=gens)
        case Constant(_, value):
            if isinstance(value, Affine):
                value = value.substitute(sizes).evaluate({})
            return Constant(gens, value)
        case Addition():
            return replace(
                rhs, gens=gens, left_mask=at(rhs.left_mask), right_mask=at(rhs.right_mask)
            )
        case Map():
            return replace(rhs, gens=gens, mask=at(rhs.mask))
        case Contraction():
            factors = tuple(
                Factor(f.name, tuple(a.substitute(sizes) for a in f.indices)) for f in rhs.factors
            )
            return Contraction(gens, _binders(rhs.sums, sizes), at(rhs.mask), factors)
    raise TypeError(rhs)
