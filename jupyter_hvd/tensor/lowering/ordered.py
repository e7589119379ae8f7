"""Ranks and counts by sorting: of n entries, `Σ j. comes_before(x[j], x[i], [j<i])` compares n² pairs, and
`Σ i. precedes(a[i], v[k])` all entries of two arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

from ..language.affine import Affine
from ..language.predicates import TRUE, Predicate, compare, substitute
from ..language.terms import index_names
from ..ssa.program import Constant, Contraction, Map, Rhs, pointwise
from .ir import Action, extents_of
from .picked import place_read

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
    if prod(extents_of((*rhs.gens, *rhs.sums))) < FEW:
        return None
    (factor,) = rhs.factors
    compared = defined[factor.name]
    if not isinstance(compared, Map) or compared.mask != TRUE:
        return None
    places = [place_read(x, factor.indices, defined) for x in compared.arguments]
    (other, there), (own, here) = places[:2]
    whole = pointwise(rhs.gens)
    (summed, _), *_ = rhs.sums
    j = Affine.of(summed)

    def is_all_of(name: str) -> bool:
        return extents_of(defined[name].gens) == extents_of(rhs.gens)

    match compared.function.name:
        case "comes_before":
            descending = there == whole
            if descending:
                (other, there), (own, here) = places[1], places[0]
            if other != own or here != whole or not is_all_of(own):
                return None
            moved = [k for k, (a, b) in enumerate(zip(here, there, strict=True)) if a != b]
            if len(moved) != 1 or there[moved[0]] != j:
                return None
            (axis,) = moved
            if rhs.sums[0].size != rhs.gens[axis].size:
                return None
            if not _is_first(places[2], compare("<", j, whole[axis]), defined):
                return None
            return Ranked(own, axis, descending)
        case "precedes" | "precedes_or_ties" as name:
            lists = there == (j,) and defined[other].gens[0].size == rhs.sums[0].size
            if not lists or here != whole or not is_all_of(own) or not index_names(rhs.gens):
                return None
            return Counted(other, own, name == "precedes_or_ties")
    return None


def _is_first(
    place: tuple[str, tuple[Affine, ...]], p: Predicate, defined: Mapping[str, Rhs]
) -> bool:
    """Whether a variable at a place is 1 where a condition holds, and 0 elsewhere."""
    name, at = place
    rhs = defined[name]
    if not isinstance(rhs, Contraction) or rhs.sums or len(rhs.factors) != 1:
        return False
    one = defined[rhs.factors[0].name]
    names = dict(zip(index_names(rhs.gens), at, strict=True))
    return isinstance(one, Constant) and one.value == 1 and substitute(rhs.mask, names) == p
