"""Functions of whole arrays that the language writes out as loops over scalars, and for which JAX has one of its own.

What `np.linalg.solve(a, b)` is, is said by its loops. That they are such a function is noted beside the value: each entry x is
`whole_solve(x, a[0, 0], b[0, 0])`, a black box that gives back x. Nothing reads the note but JAX's own way to compute a program
(`jax/plain`), which takes the function for the loops; everything else has the program without (`unnoted`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .affine import Affine
from .provenance import came_from
from .terms import Call, Term, Var, index_names, rebuild, strip_entries, strip_gens

PREFIX = "whole_"
#: The dimensions of the result, and of each operand, by the name of the function.
WHOLE: Mapping[str, tuple[int, tuple[int, ...]]] = {
    "solve": (2, (2, 2)),
    "inv": (2, (2,)),
    "cholesky": (2, (2,)),
    "det": (0, (2,)),
    "sign_of_det": (0, (2,)),
    "log_of_det": (0, (2,)),
    "solve_lower": (2, (2, 2)),
    "solve_upper": (2, (2, 2)),
}


@dataclass(frozen=True)
class Whole:
    """A function of the arrays that some variables are, one for each value of `batch` dimensions, the first of all."""

    name: str
    operands: tuple[Var, ...]
    batch: int


def is_note(e: Term) -> bool:
    """Whether a term notes what its first argument is an entry of."""
    return isinstance(e, Call) and e.function.name.startswith(PREFIX)


def unnoted(e: Term) -> Term:
    """A term without such notes."""
    return _without_notes(e) if has_notes(e) else e


def _without_notes(e: Term) -> Term:
    e = rebuild(e, _without_notes)
    return came_from(e.children[0], e) if is_note(e) else e


def has_notes(e: Term) -> bool:
    """Whether there are any in a term."""
    return is_note(e) or any(map(has_notes, e.children))


def whole_function(value: Term) -> Whole | None:
    """The function that an array is said to be, where it is that for whole variables."""
    binders, value = strip_gens(value)
    if not isinstance(value, Call) or not is_note(value):
        return None
    name = value.function.name.removeprefix(PREFIX)
    own, dims = WHOLE[name]
    batch = len(binders) - own
    at = tuple(map(Affine.of, index_names(binders[:batch])))
    operands = []
    for operand, count in zip(value.arguments[1:], dims, strict=True):
        array, indices = strip_entries(operand)
        if not isinstance(array, Var) or indices != (*at, *[Affine.of(0)] * count):
            return None
        operands.append(array)
    return Whole(name, tuple(operands), batch)
