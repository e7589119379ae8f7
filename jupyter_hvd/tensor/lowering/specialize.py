"""A program at the sizes of one call: every extent and bound an integer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..language import types
from ..language.affine import Affine
from ..language.predicates import substitute
from ..language.terms import Binder, Binders
from ..ssa.program import Constant, Contraction, Input, Program, Recurrence, Rhs, with_masks

Sizes = Mapping[str, Affine]


def at_sizes(program: Program, sizes: Mapping[str, int]) -> Program:
    """Return the program with integers for its sizes."""
    known = {name: Affine.of(value) for name, value in sizes.items()}
    statements = tuple(replace(s, rhs=_specialize_rhs(s.rhs, known)) for s in program.statements)
    return Program(statements, program.output)


def _specialize_binders(binders: Binders, sizes: Sizes) -> Binders:
    """Return binders with integer sizes, not negative."""
    return tuple(Binder(i, Affine.of(max(0, n.substitute(sizes).evaluate({})))) for i, n in binders)


def _specialize_rhs(rhs: Rhs, sizes: Sizes) -> Rhs:
    """Return a right-hand side with integers for its sizes."""
    rhs = replace(rhs, gens=_specialize_binders(rhs.gens, sizes))
    match rhs:
        case Input(_, type_):
            return replace(rhs, type=types.at_sizes(type_, sizes))
        case Constant(_, Affine() as value):
            value = value.substitute(sizes)
            return replace(rhs, value=value if value.terms else value.constant)
        case Contraction(_, sums, _, factors):
            factors = tuple(f.substitute(sizes) for f in factors)
            rhs = replace(rhs, sums=_specialize_binders(sums, sizes), factors=factors)
        case Recurrence(_, size, _, _, _, body):
            statements = tuple(
                [replace(s, rhs=_specialize_rhs(s.rhs, sizes)) for s in body.statements]
            )
            turns = Affine.of(max(0, size.substitute(sizes).evaluate({})))
            return replace(rhs, size=turns, body=Program(statements, body.output))
    return with_masks(rhs, lambda p, _: substitute(p, sizes))
