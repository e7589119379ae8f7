"""Variables as sums of pieces: stored together where that wastes little, apart where it would."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from ..language.affine import Affine
from ..language.predicates import (
    TRUE,
    Predicate,
    Related,
    conj,
    conjuncts,
    disj,
    in_range,
    substitute,
)
from ..language.terms import Binders
from ..language.types import ParameterType
from ..polyhedral.lattice import residual
from ..ssa.program import pointwise
from .coiteration import row_name
from .dataflow import used_lookups
from .ir import Action, Fill, Lookup, Masked, Product, Read, Step, Total
from .iteration import Domain, domains
from .storage import Layout, Piece, hull, identity

MANY = 12  # pieces of a variable beyond which they are joined


@dataclass
class Pieces:
    """The steps made so far, and the pieces of each variable."""

    types: dict[str, ParameterType]
    counts: Mapping[str, int]
    steps: list[Step] = field(default_factory=list)
    pieces: dict[str, tuple[Piece, ...]] = field(default_factory=dict)
    gens: dict[str, Binders] = field(default_factory=dict)
    statement: str = ""
    made: dict[Action, str] = field(default_factory=dict)

    def step(self, action: Action) -> str:
        """The array that an action makes, made once."""
        if action not in self.made:
            taken = sum(s.statement == self.statement for s in self.steps)
            name = f"{self.statement}.{taken}" if taken else self.statement
            self.made[action] = name
            self.steps.append(Step(name, action, self.statement))
        return self.made[action]

    def domains(self, gens: Binders, sums: Binders, p: Predicate) -> Iterator[Domain]:
        return domains(gens, sums, p, self.types, self.counts)

    def piece(self, action: Action, layout: Layout) -> Piece:
        return Piece(self.step(action), layout)

    def masked(
        self,
        piece: Piece,
        at: Mapping[str, Affine],
        box: Binders,
        known: Predicate,
        lookups: tuple[Lookup, ...] = (),
    ) -> Masked:
        """A piece read where its generators are what `at` says, zero where it stores nothing."""
        places = tuple(a.substitute(at) for a in piece.layout.inverse)
        mask = untested(substitute(piece.layout.lattice, at), box, known, lookups)
        read = Read(piece.name, places)
        return Masked(read, mask, used_lookups(lookups, (read, mask)))

    def merged(self, pieces: Sequence[Piece]) -> tuple[Piece, ...]:
        """The sum of some pieces, with one array for those that fit into one box at little
        waste.
        """
        groups: list[tuple[Layout, list[Piece]]] = []
        for piece in sorted(pieces, key=lambda x: -x.layout.volume):
            for k, (layout, members) in enumerate(groups):
                grown = self.grown(layout, piece.layout)
                if grown is not None:
                    groups[k] = grown, [*members, piece]
                    break
            else:
                groups.append((piece.layout, [piece]))
        if len(groups) > MANY:
            whole = identity(pieces[0].layout.gens)
            groups = [(whole, [self.plain(piece) for piece in pieces])]
        return tuple(self.sum_of(layout, members) for layout, members in groups)

    def grown(self, layout: Layout, other: Layout) -> Layout | None:
        if None in layout.forward or layout.rows:
            same = (layout.inverse, layout.extents, layout.lattice, layout.rows)
            alike = same == (other.inverse, other.extents, other.lattice, other.rows)
            return layout if alike else None
        return hull(layout, other)

    def sum_of(self, layout: Layout, members: Sequence[Piece]) -> Piece:
        if (
            len(members) == 1
            and members[0].layout.extents == layout.extents
            and (members[0].layout.inverse == layout.inverse)
        ):
            return members[0]
        support = disj(*(conj(x.layout.lattice, x.layout.support) for x in members))
        layout = replace(layout, support=support)
        return self.piece(self.total(layout, members), layout)

    def total(self, layout: Layout, members: Sequence[Piece]) -> Total:
        """The members added up on the box of a layout."""
        addends = []
        for piece in members:
            if piece.layout.inverse == layout.inverse and piece.layout.extents == layout.extents:
                places = tuple(Affine.of(u) for u, _ in layout.coordinates)
                addends.append(Masked(Read(piece.name, places)))
                continue
            at = {
                g: a for (g, _), a in zip(layout.gens, layout.forward, strict=True) if a is not None
            }
            addends.append(self.masked(piece, at, layout.coordinates, TRUE))
        return Total(layout.coordinates, tuple(addends))

    def plain(self, piece: Piece) -> Piece:
        """A piece stored by the rows of relations as one stored by its indices."""
        if not piece.layout.rows:
            return piece
        whole = identity(piece.layout.gens, piece.layout.support)
        places = zip(piece.layout.inverse, piece.layout.extents, strict=True)
        rows = {row_name(atom) for atom in piece.layout.rows}
        stored = (in_range(a, Affine.of(n)) for a, n in places if a.names & rows)
        p = conj(piece.layout.lattice, *stored)  # which names the rows, so that they stay rows
        (d,) = self.domains(piece.layout.gens, (), p)
        targets = tuple(
            (Affine.of(g).substitute(d.meaning), n.constant) for g, n in piece.layout.gens
        )
        at = {**piece.layout.at(pointwise(piece.layout.gens)), **d.meaning}
        read = Read(piece.name, tuple(a.substitute(at) for a in piece.layout.inverse))
        used = used_lookups(d.lookups, (read, *(a for a, _ in targets)))
        return self.piece(Product(d.out, (), (read,), TRUE, used, targets), whole)

    def joined(self, name: str) -> Piece:
        """A variable as one piece."""
        pieces = self.pieces[name]
        if len(pieces) == 1:
            return pieces[0]
        whole = identity(self.gens[name])
        return self.sum_of(whole, [self.plain(piece) for piece in pieces])

    def whole(self, name: str) -> str:
        """A variable as the array that the program returns."""
        layout = identity(self.gens[name])
        pieces = self.pieces[name]
        if not pieces:
            return self.step(Fill(layout.coordinates, 0))
        return self.sum_of(layout, [self.plain(piece) for piece in pieces]).name


def untested(p: Predicate, box: Binders, known: Predicate, lookups: Sequence[Lookup]) -> Predicate:
    """What of `p` is left to test, given what is known and what the lookups are."""
    entries = {(x.relation, x.places): Affine.of(x.name) for x in lookups}
    parts = [
        q
        for q in conjuncts(p)
        if not (
            isinstance(q, Related)
            and q.arguments
            and entries.get((q.relation, q.arguments[:-1])) == q.arguments[-1]
        )
    ]
    return residual(conj(*parts), box, known)
