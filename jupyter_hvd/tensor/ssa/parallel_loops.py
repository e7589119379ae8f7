"""Loops whose iterations read nothing of one another become arrays over the iterations, which need no order.

What a loop carries may turn out to be read by no iteration, as when an inner loop fills a row from the one before
(`ssa/array_contraction`). Then `iterate k:n. s := X in e` is `⊞ k:n. e`, behind what it began with.
"""

from __future__ import annotations

from dataclasses import replace

from ..language.affine import Affine
from ..language.predicates import TRUE, compare
from ..language.terms import Binder, in_ranges, number_binders
from .builder import Builder
from .program import (
    Addition,
    Application,
    Constant,
    Contraction,
    Factor,
    Input,
    Map,
    Part,
    Program,
    Recurrence,
    Rhs,
    flatten_output,
    pointwise,
    rename,
    rename_output,
)


def parallelize_loops(program: Program) -> Program:
    """Replace loops with independent iterations by arrays over the iterations."""
    if not any(_is_independent(s.rhs) for s in program.statements):
        return program
    builder, names = Builder(), dict[str, str]()
    histories: dict[str, list[str]] = {}
    for s in program.statements:
        builder.origin = s.origin
        match s.rhs:
            case Recurrence() as loop if _is_independent(loop):
                made = rename(loop, names)
                assert isinstance(made, Recurrence)
                histories[s.name] = _build_histories(made, builder)
            case Part(source, place) if source in histories:
                names[s.name] = histories[source][place]
            case rhs:
                names[s.name] = builder.add_statement(rename(rhs, names))
    return builder.build_program(rename_output(program.output, names))


def _is_independent(rhs: Rhs) -> bool:
    """Whether a right-hand side is a loop whose iterations do not read carried values."""
    if not isinstance(rhs, Recurrence) or rhs.again is not None:
        return False
    body = [s.rhs for s in rhs.body.statements]
    inside = any(isinstance(x, Recurrence | Part) for x in body)
    return not inside and not any(isinstance(x, Input) and x.parameter[0] == "s" for x in body)


def _build_histories(loop: Recurrence, builder: Builder) -> list[str]:
    """Build the histories of a loop's values from their initial values and the arrays over the iterations."""
    made = dict[str, str]()
    for s in loop.body.statements:
        builder.origin = s.origin
        made[s.name] = builder.add_statement(vectorize_statement(s.rhs, loop, made))
    found = []
    for start, name in zip(loop.starts, flatten_output(loop.body.output), strict=True):
        sizes = in_ranges(builder.defined[made[name]].gens)[1:]
        gens = number_binders("g", (loop.size + 1, *sizes))
        turn, *rest = pointwise(gens)
        first, later = compare("=", turn, 0), compare("≤", 1, turn)
        begun = Contraction(gens, (), first, (Factor(start, tuple(rest)),))
        left = Contraction(gens, (), later, (Factor(made[name], (turn - 1, *rest)),))
        both = Addition(
            gens, first, builder.add_statement(begun), later, builder.add_statement(left)
        )
        found.append(builder.add_statement(both))
    return found


def vectorize_statement(rhs: Rhs, loop: Recurrence, made: dict[str, str]) -> Rhs:
    """Turn a statement of a loop's body into one for an array over the iterations."""
    turn = Affine.of(loop.index)
    gens = (Binder(loop.index, loop.size), *rhs.gens)
    match rhs:
        case Input(parameter, _, _, inner):
            at = (turn, *pointwise(inner)) if parameter[0] == "r" else pointwise(inner)
            return Contraction(gens, (), TRUE, (Factor(loop.arguments[parameter], at),))
        case Contraction():
            factors = tuple([Factor(made[f.name], (turn, *f.indices)) for f in rhs.factors])
            return replace(rhs, gens=gens, factors=factors)
        case Constant() | Addition() | Map() | Application():
            return replace(rename(rhs, made), gens=gens)
    raise TypeError(rhs)
