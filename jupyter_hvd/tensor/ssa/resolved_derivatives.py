"""Removes primitives that only direct differentiation (`stopped`, `tangent`), once derivatives are taken."""

from __future__ import annotations

from dataclasses import replace

from ..language.function import Function, parameter_names
from ..language.provenance import came_from
from ..language.terms import Add, At, Call, Const, Gen, Guard, Let, Mul, Proj, Sum, Term, Var
from ..language.types import REAL
from .program import Constant, Contraction, Factor, Map, Program, Recurrence, Rhs, pointwise
from .simplify import simplify


def resolve_markers(program: Program) -> Program:
    """Replace `tangent(x, w)` by 0, and `stopped(x)` and the like by their argument; then simplify."""
    found = _resolve_plain(program)
    return program if found == program else simplify(found)


def _resolve_plain(program: Program) -> Program:
    """Resolve markers without simplifying."""
    statements = [replace(s, rhs=_marker_value(s.rhs)) for s in program.statements]
    return replace(program, statements=tuple(statements))


def _marker_value(rhs: Rhs) -> Rhs:
    """Return what a marker stands for; other right-hand sides unchanged."""
    match rhs:
        case Recurrence():
            return replace(rhs, body=_resolve_plain(rhs.body))
        case Map() if rhs.function.name == "tangent":
            return Constant(rhs.gens, 0)
        case Map() if (k := _find_returned_argument(rhs.function)) is not None:
            factor = Factor(rhs.arguments[k], pointwise(rhs.gens))
            return Contraction(rhs.gens, (), rhs.mask, (factor,))
    return rhs


def resolve_markers_in_term(e: Term) -> Term:
    """Resolve markers in a term, and drop what only they needed.

    Nothing else is simplified, so that the cost counted is that of the source program.
    """
    found = _remaining_term(e, frozenset())
    return e if found is None else found


def _remaining_term(e: Term, nothing: frozenset[str]) -> Term | None:
    """Return the term without markers; None where it is zero, as the variables in `nothing` are."""
    match e:
        case Var(x) if x in nothing:
            return None
        case Call(f) if f.name == "tangent":
            return None
        case Call(f, arguments) if (k := _find_returned_argument(f)) is not None:
            return _remaining_term(arguments[k], nothing)
        case Let(x, value, body):
            bound = _remaining_term(value, nothing)
            left = _remaining_term(body, nothing | {x} if bound is None else nothing - {x})
            if left is None or (x in body.variables and x not in left.variables):
                return left
            return came_from(Let(x, value if bound is None else bound, left), e)
    parts = [_remaining_term(child, nothing) for child in e.children]
    match e, parts:
        case Add(), [one, None] | [None, one]:
            return one
        case Gen() | Sum() | Guard() | At() | Proj() | Mul(), parts if None in parts:
            return None
    whole = (part or _zero_or_term(child) for part, child in zip(parts, e.children, strict=True))
    return came_from(e.over(*whole), e)


def _zero_or_term(e: Term) -> Term:
    """Return 0 for a scalar term, else the term."""
    return Const(0) if e.type == REAL else e


def _find_returned_argument(f: Function) -> int | None:
    """Return the position of the argument that a marker primitive returns; None for any other primitive."""
    if f.name == "stopped":
        return 0
    if isinstance(f.body, Var):
        return parameter_names(f.arity).index(f.body.name)
    return None
