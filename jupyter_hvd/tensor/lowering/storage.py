"""Where the entries of an SSA variable are stored.

A variable is the sum of its pieces. A piece is a dense array over the box of a frame: a diagonal is
a vector, a one-hot row a vector, a band one row for each diagonal. Outside its pieces' boxes a
variable is zero; inside, zeros that the predicate leaves are stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod

from ..language.affine import Affine
from ..language.predicates import (
    TRUE,
    Predicate,
    compare,
    conj,
    conjuncts,
    in_range,
    substitute,
)
from ..language.terms import Binders, in_ranges, index_names, number_binders
from ..ssa.program import pointwise
from .coiteration import Position
from .ir import extents_of


@dataclass(frozen=True)
class Storage:
    """Entry `gens` of a tensor is at `inverse(gens)` in an array with these extents.

    `lattice` is the condition that there is such a position, apart from the extents: equalities, and relations where an index
    array determines an index (`j = src[e]`). Where `support` fails, the entry is zero. `forward` is each generator over the
    coordinates, None if data determine it. A coordinate may count the tuples of relations: then `inverse` uses their
    `positions`, of atoms over the generators.
    """

    gens: Binders
    extents: tuple[int, ...]
    inverse: tuple[Affine, ...]
    forward: tuple[Affine | None, ...]
    lattice: Predicate = TRUE
    support: Predicate = TRUE
    positions: tuple[Position, ...] = ()

    @property
    def volume(self) -> int:
        """The number of stored entries."""
        return prod(self.extents)

    @cached_property
    def coordinates(self) -> Binders:
        """The array's own indices."""
        return number_binders("u", map(Affine.of, self.extents))

    def at_place(self, places: Sequence[Affine]) -> dict[str, Affine]:
        """Return the substitution of the coordinates by these indices."""
        return dict(zip(index_names(self.coordinates), places, strict=True))

    @property
    def is_identity(self) -> bool:
        """Whether the array is the tensor itself."""
        return (self.inverse, self.extents) == (pointwise(self.gens), extents_of(self.gens))

    @property
    def index_map(self) -> dict[str, Affine]:
        """The generators over the coordinates, except those that data determine."""
        pairs = zip(self.gens, self.forward, strict=True)
        return {g: a for (g, _), a in pairs if a is not None}

    def is_like(self, other: Storage) -> bool:
        """Whether entries are at the same places of as large an array."""
        return (self.inverse, self.extents) == (other.inverse, other.extents)

    def substitutions_at(self, indices: Sequence[Affine]) -> dict[str, Affine]:
        """Return the substitution of the generators and positions for reading at `indices`."""
        at = dict(zip(index_names(self.gens), indices, strict=True))
        for position in self.positions:
            at[position] = Affine.of(position.substitute(at))
        return at

    def place_of_entry(self, indices: Sequence[Affine]) -> tuple[Affine, ...]:
        """Return the position in the array of the entry at `indices`."""
        at = self.substitutions_at(indices)
        return tuple(a.substitute(at) for a in self.inverse)


@dataclass(frozen=True)
class Piece:
    """A named array and where its entries belong."""

    name: str
    storage: Storage


def full_storage(gens: Binders, support: Predicate = TRUE) -> Storage:
    """Return the storage of a tensor in full."""
    forward = pointwise(number_binders("u", in_ranges(gens)))
    return Storage(gens, extents_of(gens), pointwise(gens), forward, TRUE, support)


def last_entry_storage(gens: Binders) -> Storage:
    """Return the storage of only the last entry along the first axis, for a tensor of which no other is read."""
    (first, size), *rest = gens
    last, inner = size - 1, full_storage(tuple(rest))
    lattice = compare("=", first, last)
    return Storage(gens, inner.extents, inner.inverse, (last, *inner.forward), lattice, lattice)


def places_within(big: Storage, small: Storage) -> tuple[Affine, ...] | None:
    """Return the positions in `big`, ignoring its extents, of the entries of `small`; None if some entry is not on its
    lattice.
    """
    if None in small.forward or None in big.forward:
        return None
    forward = [a for a in small.forward if a is not None]
    places = big.place_of_entry(forward)
    back = big.at_place(places)
    again = [a.substitute(back) for a in big.forward if a is not None]
    return places if again == forward else None


def grow_to_hold(big: Storage, small: Storage) -> Storage | None:
    """Return `big` with its box grown to hold `small`; None if that stores more than twice both."""
    places = places_within(big, small)
    if places is None:
        return None
    box = dict(zip(index_names(small.coordinates), small.extents, strict=True))
    reached = [a.value_range(box) for a in places]
    low = [min(0, first) for first, _ in reached]
    high = [max(n, last + 1) for n, (_, last) in zip(big.extents, reached, strict=True)]
    extents = tuple(b - a for a, b in zip(low, high, strict=True))
    if prod(extents) > 2 * max(big.volume + small.volume, 1):
        return None
    shift = big.at_place([Affine.of(u) + a for (u, _), a in zip(big.coordinates, low, strict=True)])
    return replace(
        big,
        extents=extents,
        inverse=tuple(a - b for a, b in zip(big.inverse, low, strict=True)),
        forward=tuple(None if a is None else a.substitute(shift) for a in big.forward),
    )


def stored_condition(storage: Storage, indices: Sequence[Affine]) -> Predicate:
    """Return the condition under which the entry at `indices` is stored."""
    ranges = zip(storage.place_of_entry(indices), storage.extents, strict=True)
    inside = (in_range(a, Affine.of(n)) for a, n in ranges)
    return conj(substitute(storage.lattice, storage.substitutions_at(indices)), *inside)


def zero_outside(storage: Storage, indices: Sequence[Affine]) -> Predicate:
    """Return the condition under which the entry at `indices` may be nonzero."""
    at = storage.substitutions_at(indices)
    return conj(stored_condition(storage, indices), substitute(storage.support, at))


def nonzero_read(storage: Storage, indices: Sequence[Affine]) -> Predicate:
    """Return a superset of the indices at which reading an entry's position yields a nonzero value.

    The entry stored there may be another one: this does not say whether the indices are on the lattice.
    """
    places = storage.place_of_entry(indices)
    ranges = (in_range(a, Affine.of(n)) for a, n in zip(places, storage.extents, strict=True))
    back = storage.at_place(places)
    at = {g: a.substitute(back) for g, a in storage.index_map.items()}
    shown = (q for q in conjuncts(storage.support) if q.names <= at.keys())
    return conj(*ranges, *(substitute(q, at) for q in shown))
