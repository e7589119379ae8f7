"""Integers that a kernel computes, as index arrays: reads become gathers, writes become scatters.

The language says `x[p]` as `Σ j. kept(picks(p, j), x[j])`, n terms of which one is left. With the numbers of `p` as an index
array ρ that a step makes, `kept(picks(p[i], j), e)` is `[ρ(i, j)]·e`, and the sum is eliminated as one over an index array of
the program's is (`coiteration`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..language.affine import Affine
from ..language.function import Function, Partial
from ..language.predicates import TRUE, Predicate, Related, conj, substitute
from ..language.terms import in_ranges, index_values
from ..language.types import IndexArray
from ..ssa.program import (
    Constant,
    Contraction,
    Factor,
    Map,
    Program,
    Rhs,
    Statement,
    is_picking,
    pointwise,
)

ONE = "⌊1⌋"  # the statement of that number


def index_array_name(name: str) -> str:
    """Return the name of the relation that has a variable's numbers as indices."""
    return f"⌊{name}⌋"


def extract_index_arrays(program: Program) -> tuple[Program, dict[str, IndexArray]]:
    """Return a program at known sizes with its computed indices as index arrays, and their types by variable.

    A step makes such an array when its variable is available.
    """
    if not any(is_picking(s.rhs) for s in program.statements):
        return program, {}
    found = _Picked({s.name: s.rhs for s in program.statements})
    statements = [replace(s, rhs=found.rewrite_picks(s.rhs)) for s in program.statements]
    one = (Statement(ONE, Constant((), 1)),) if found.arrays else ()
    return Program((*one, *statements), program.output), found.arrays


@dataclass
class _Picked:
    """`defined` are the statements' right-hand sides, `arrays` the index arrays so far."""

    defined: Mapping[str, Rhs]
    arrays: dict[str, IndexArray] = field(default_factory=dict)

    def rewrite_picks(self, rhs: Rhs) -> Rhs:
        """Return a right-hand side with `picks` and `kept` as conditions on index arrays."""
        if not isinstance(rhs, Map) or not rhs.arguments:
            return rhs
        here = pointwise(rhs.gens)
        factor: Factor | None
        if is_picking(rhs):
            p, factor = self.picking_condition(rhs, here), _ONE
        elif _is_kept(rhs.function):
            p, factor = self.picked_condition(rhs.arguments[0], here), _kept_read(rhs, here)
        else:
            return rhs
        if p is None:
            return rhs
        p = conj(rhs.mask, p)
        return replace(rhs, mask=p) if factor is None else Contraction(rhs.gens, (), p, (factor,))

    def picked_condition(self, name: str, at: Sequence[Affine]) -> Predicate | None:
        """Return the condition for an entry that is 1 where an index is picked, else 0; None for other variables."""
        rhs = self.defined[name]
        if isinstance(rhs, Map) and is_picking(rhs):
            return self.picking_condition(rhs, at)
        if not isinstance(rhs, Contraction) or rhs.sums:
            return None
        here = index_values(rhs.gens, at)
        parts = [self.picked_condition(f.name, f.substitute(here).indices) for f in rhs.factors]
        known = [p for p in parts if p is not None]
        if len(known) < len(parts):
            return None
        return conj(substitute(rhs.mask, here), *known)

    def picking_condition(self, rhs: Map, at: Sequence[Affine]) -> Predicate | None:
        """Return `picks(p[a], j)` as a condition, where a does not contain the index j; else None."""
        array, place = (
            find_entry_read(x, pointwise(rhs.gens), self.defined) for x in rhs.arguments
        )
        number = self.defined[place[0]]
        if not isinstance(number, Constant) or not isinstance(number.value, Affine):
            return None
        j = number.value.substitute(index_values(number.gens, place[1]))
        if len(j.terms) != 1 or abs(j.terms[0][1]) != 1:
            return None
        name, indices = array
        if j.names & frozenset[str]().union(*(a.names for a in indices)):
            return None
        _, last = j.value_range({i: n.constant for i, n in rhs.gens})
        before = self.arrays.get(name)
        below = last + 1 if before is None or before.below is None else min(before.below, last + 1)
        self.arrays[name] = IndexArray(in_ranges(self.defined[name].gens), below)
        p = Related(index_array_name(name), (*indices, j))
        return substitute(p, index_values(rhs.gens, at))


def find_entry_read(
    name: str, at: Sequence[Affine], defined: Mapping[str, Rhs]
) -> tuple[str, tuple[Affine, ...]]:
    """Return the variable that an entry is read from, and the indices there, through variables that only repeat or reorder."""
    rhs = defined[name]
    if not isinstance(rhs, Contraction) or rhs.sums or rhs.mask != TRUE or len(rhs.factors) != 1:
        return name, tuple(at)
    (factor,) = rhs.factors
    return find_entry_read(
        factor.name, factor.substitute(index_values(rhs.gens, at)).indices, defined
    )


def _is_kept(function: Function) -> bool:
    """Whether a primitive is `kept`, or derived from it: zero where its first argument is."""
    while function.derivation is not None:
        function, _ = function.derivation
    return function.name == "kept"


def _kept_read(rhs: Map, here: Sequence[Affine]) -> Factor | None:
    """Return the value that `kept` keeps, as a read; 1 for the slope of `kept`; None for other derivatives."""
    match rhs.function.derivation:
        case None:
            return Factor(rhs.arguments[1], tuple(here))
        case (base, Partial(1)) if base.derivation is None:
            return _ONE
    return None


_ONE = Factor(ONE, ())
