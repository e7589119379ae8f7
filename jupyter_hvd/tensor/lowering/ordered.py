"""Ranks and counts by sorting: of n entries, `Σ j. comes_before(x[j], x[i], [j<i])` compares n² pairs, and
`Σ i. precedes(a[i], v[k])` all entries of two arrays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from ..language.affine import Affine
from ..language.predicates import TRUE, Predicate, compare, substitute
from ..language.terms import Binder, Binders, put
from ..ssa.program import Constant, Contraction, Map, Rhs, pointwise
from .ir import Action, extents_of
from .picked import place_read

Place = tuple[str, tuple[Affine, ...]]  # a variable, and the indices of an entry
FEW = 1 << 12  # pairs that are compared before anything is sorted


@dataclass(frozen=True)
class Ranked(Action):
    """The place of each entry of an array among those along an axis, in order, or in `descending` order; of equal ones the first
    is first.
    """

    array: str
    axis: int
    descending: bool

    @cached_property
    def sources(self) -> frozenset[str]:
        return frozenset((self.array,))


@dataclass(frozen=True)
class Counted(Action):
    """How many entries of a list precede each of an array, or with `ties` do not come after it."""

    among: str
    array: str
    ties: bool

    @cached_property
    def sources(self) -> frozenset[str]:
        return frozenset((self.among, self.array))


def by_sorting(rhs: Contraction, defined: Mapping[str, Rhs]) -> Ranked | Counted | None:
    """What a sum of comparisons of the entries of whole variables is; None where it is something else, or small."""
    if len(rhs.sums) != 1 or rhs.mask != TRUE or len(rhs.factors) != 1:
        return None
    (factor,) = rhs.factors
    compared = defined[factor.name]
    if not isinstance(compared, Map) or compared.mask != TRUE:
        return None
    if prod(extents_of((*rhs.gens, *rhs.sums))) < FEW:
        return None
    places = [place_read(x, factor.indices, defined) for x in compared.arguments]
    match compared.function.name:
        case "comes_before":
            return _ranked(rhs, places, defined)
        case "precedes" | "precedes_or_ties" as name:
            return _counted(rhs, places, defined, name == "precedes_or_ties")
    return None


def _ranked(rhs: Contraction, places: Sequence[Place], defined: Mapping[str, Rhs]) -> Ranked | None:
    left, right, first = places
    whole, ((j, n),) = pointwise(rhs.gens), rhs.sums
    descending = left[1] == whole
    (other, there), (own, here) = (right, left) if descending else (left, right)
    if other != own or here != whole or not _has_extents(own, rhs.gens, defined):
        return None
    moved = [k for k, (a, b) in enumerate(zip(here, there, strict=True)) if a != b]
    if len(moved) != 1 or there[moved[0]] != Affine.of(j) or rhs.gens[moved[0]].size != n:
        return None
    (axis,) = moved
    is_first = _is_indicator(first, compare("<", j, whole[axis]), defined)
    return Ranked(own, axis, descending) if is_first else None


def _counted(
    rhs: Contraction, places: Sequence[Place], defined: Mapping[str, Rhs], ties: bool
) -> Counted | None:
    (among, there), (own, here) = places
    ((j, n),) = rhs.sums
    if there != (Affine.of(j),) or not _has_extents(among, (Binder(j, n),), defined):
        return None
    if not rhs.gens or here != pointwise(rhs.gens) or not _has_extents(own, rhs.gens, defined):
        return None
    return Counted(among, own, ties)


def _has_extents(name: str, binders: Binders, defined: Mapping[str, Rhs]) -> bool:
    return extents_of(defined[name].gens) == extents_of(binders)


def _is_indicator(place: Place, p: Predicate, defined: Mapping[str, Rhs]) -> bool:
    """Whether a variable is 1 at a place where a condition holds, and 0 elsewhere."""
    name, at = place
    rhs = defined[name]
    if not isinstance(rhs, Contraction) or rhs.sums or len(rhs.factors) != 1:
        return False
    one = defined[rhs.factors[0].name]
    is_one = isinstance(one, Constant) and one.value == 1
    return is_one and substitute(rhs.mask, put(rhs.gens, at)) == p
