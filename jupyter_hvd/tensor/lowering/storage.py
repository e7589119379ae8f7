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
from ..language.predicates import TRUE, Predicate, Related, conj, conjuncts, in_range, substitute
from ..language.terms import Binders
from .coiteration import row_name


@dataclass(frozen=True)
class Layout:
    """Entry `gens` of a tensor at place `inverse(gens)` of an array with the given extents.

    `lattice` is the condition that there is such a place, the extents apart: equalities, and
    relations where an index array gives an index of its own (`j = src[e]`). `support` says more:
    where it fails, the entry is zero. `forward` is each gen over the coordinates, None where data
    give it. A coordinate may count the tuples of relations: then `inverse` uses the names of
    their rows, and `rows` has the relation of each over the generators.
    """

    gens: Binders
    extents: tuple[int, ...]
    inverse: tuple[Affine, ...]
    forward: tuple[Affine | None, ...]
    lattice: Predicate = TRUE
    support: Predicate = TRUE
    rows: tuple[Related, ...] = ()

    @property
    def volume(self) -> int:
        return prod(self.extents)

    @cached_property
    def coordinates(self) -> Binders:
        return tuple((f"u{k}", Affine.of(n)) for k, n in enumerate(self.extents))

    @property
    def is_identity(self) -> bool:
        """Whether the array is the tensor itself."""
        return self.inverse == tuple(Affine.of(g) for g, _ in self.gens) and self.extents == tuple(
            n.constant for _, n in self.gens
        )

    def at(self, indices: Sequence[Affine]) -> dict[str, Affine]:
        """What to substitute for the generators, and for rows, to read the entry at `indices`."""
        at = dict(zip((g for g, _ in self.gens), indices, strict=True))
        for atom in self.rows:
            there = substitute(atom, at)
            assert isinstance(there, Related)
            at[row_name(atom)] = Affine.of(row_name(there))
        return at

    def stored(self, indices: Sequence[Affine]) -> tuple[Affine, ...]:
        """The place of the entry at `indices`."""
        at = self.at(indices)
        return tuple(a.substitute(at) for a in self.inverse)


@dataclass(frozen=True)
class Piece:
    """A named array and where its entries belong."""

    name: str
    layout: Layout


def identity(gens: Binders, support: Predicate = TRUE) -> Layout:
    """The tensor stored whole."""
    places = tuple(Affine.of(g) for g, _ in gens)
    coordinates = tuple(Affine.of(f"u{k}") for k in range(len(gens)))
    extents = tuple(n.constant for _, n in gens)
    return Layout(gens, extents, places, coordinates, TRUE, support)


def holding(big: Layout, small: Layout) -> tuple[Affine, ...] | None:
    """The places in `big`, of unlimited extent, of the entries of `small`; None where some entry
    does not lie on its lattice.
    """
    if None in small.forward or None in big.forward:
        return None
    forward = [a for a in small.forward if a is not None]
    places = big.stored(forward)
    back = {f"u{k}": a for k, a in enumerate(places)}
    again = [a.substitute(back) for a in big.forward if a is not None]
    return places if again == forward else None


def hull(big: Layout, small: Layout) -> Layout | None:
    """`big` with its box grown to hold `small`; None where that stores more than twice both."""
    places = holding(big, small)
    if places is None:
        return None
    low, high = [], []
    for n, a in zip(big.extents, places, strict=True):
        first = last = a.constant
        for u, k in a.terms:
            reach = k * (small.extents[int(u[1:])] - 1)
            first, last = first + min(0, reach), last + max(0, reach)
        low.append(min(0, first))
        high.append(max(n, last + 1))
    extents = tuple(b - a for a, b in zip(low, high, strict=True))
    if prod(extents) > 2 * max(big.volume + small.volume, 1):
        return None
    shift = {f"u{k}": Affine.of(f"u{k}") + a for k, a in enumerate(low)}
    return replace(
        big,
        extents=extents,
        inverse=tuple(a - b for a, b in zip(big.inverse, low, strict=True)),
        forward=tuple(None if a is None else a.substitute(shift) for a in big.forward),
    )


def membership(layout: Layout, indices: Sequence[Affine]) -> Predicate:
    """The condition that the entry at `indices` is stored."""
    ranges = zip(layout.stored(indices), layout.extents, strict=True)
    inside = (in_range(a, Affine.of(n)) for a, n in ranges)
    return conj(substitute(layout.lattice, layout.at(indices)), *inside)


def zero_outside(layout: Layout, indices: Sequence[Affine]) -> Predicate:
    """The condition under which the entry at `indices` may be other than zero."""
    at = layout.at(indices)
    return conj(membership(layout, indices), substitute(layout.support, at))


def read_shows(layout: Layout, indices: Sequence[Affine]) -> Predicate:
    """A condition outside which reading the place of the entry at `indices` gives zero.

    The entry stored there may be another one: whether the indices lie on the lattice, this does
    not say.
    """
    places = layout.stored(indices)
    ranges = (in_range(a, Affine.of(n)) for a, n in zip(places, layout.extents, strict=True))
    back = {f"u{k}": a for k, a in enumerate(places)}
    pairs = zip(layout.gens, layout.forward, strict=True)
    at = {g: a.substitute(back) for (g, _), a in pairs if a is not None}
    shown = (q for q in conjuncts(layout.support) if q.names <= at.keys())
    return conj(*ranges, *(substitute(q, at) for q in shown))
