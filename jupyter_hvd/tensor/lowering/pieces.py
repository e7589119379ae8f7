"""Variables as sums of pieces: stored together where that wastes little, separately otherwise."""

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
    is_asserted,
    substitute,
)
from ..language.terms import Binders
from ..language.types import ParameterType
from ..polyhedral.lattice import remaining_condition
from ..ssa.program import pointwise
from .coiteration import Tables
from .coo import table_name
from .dataflow import names_of, used_lookups
from .ir import Access, Accumulate, Action, Contract, Fill, IndexLookup, Masked, Step
from .iteration import IterationDomain, iteration_domains
from .relation_joins import TupleCounts
from .storage import Piece, Storage, full_storage, grow_to_hold

MANY = 12  # pieces of a variable beyond which they are joined


@dataclass
class Pieces:
    """The steps made so far, and the pieces of each variable; where the entries of arrays are."""

    types: dict[str, ParameterType]
    counts: TupleCounts
    steps: list[Step] = field(default_factory=list)
    pieces: dict[str, tuple[Piece, ...]] = field(default_factory=dict)
    gens: dict[str, Binders] = field(default_factory=dict)
    statement: str = ""
    made: dict[Action, str] = field(default_factory=dict)
    storages: dict[str, Storage] = field(default_factory=dict)

    def add_step(self, action: Action) -> str:
        """Return the array that an action makes; equal actions share one step."""
        if action not in self.made:
            taken = sum(s.statement == self.statement for s in self.steps)
            name = f"{self.statement}.{taken}" if taken else self.statement
            self.made[action] = name
            self.steps.append(Step(name, action, self.statement))
        return self.made[action]

    def find_domains(self, gens: Binders, sums: Binders, p: Predicate) -> Iterator[IterationDomain]:
        """Yield the iteration domains of a space."""
        return iteration_domains(gens, sums, p, self.types, self.counts)

    def has_joins(self, gens: Binders, sums: Binders, p: Predicate) -> bool:
        """Whether relations of a space are joined."""
        return bool(Tables(gens, sums, p, self.types, self.counts).chosen.joined)

    def make_piece(self, action: Action, storage: Storage) -> Piece:
        """Add a step, and return its array with where the entries belong."""
        name = self.add_step(action)
        self.storages.setdefault(name, storage)
        return Piece(name, storage)

    def mask_piece(
        self,
        piece: Piece,
        at: Mapping[str, Affine],
        box: Binders,
        known: Predicate,
        lookups: tuple[IndexLookup, ...] = (),
    ) -> Masked:
        """Return a read of a piece where its generators are what `at` says, zero where it stores nothing."""
        places = tuple(a.substitute(at) for a in piece.storage.inverse)
        mask = remaining_test(substitute(piece.storage.lattice, at), box, known, lookups)
        read = Access(piece.name, places)
        return Masked(read, mask, used_lookups(lookups, names_of(read.indices) | mask.names))

    def merge_pieces(self, pieces: Sequence[Piece]) -> tuple[Piece, ...]:
        """Return the sum of some pieces, with one array for those that fit into one box with little waste."""
        groups: list[tuple[Storage, list[Piece]]] = []
        for piece in sorted(pieces, key=lambda x: -x.storage.volume):
            for k, (storage, members) in enumerate(groups):
                grown = self.grow_storage(storage, piece.storage)
                if grown is not None:
                    groups[k] = grown, [*members, piece]
                    break
            else:
                groups.append((piece.storage, [piece]))
        if len(groups) > MANY:
            whole = full_storage(pieces[0].storage.gens)
            groups = [(whole, [self.densify_piece(piece) for piece in pieces])]
        return tuple(self.add_pieces(storage, members) for storage, members in groups)

    def grow_storage(self, storage: Storage, other: Storage) -> Storage | None:
        """Return a storage with room for another one's entries; None if that wastes much."""
        if None in storage.forward or storage.positions:
            lattices = (storage.lattice, storage.positions) == (other.lattice, other.positions)
            return storage if storage.is_like(other) and lattices else None
        return grow_to_hold(storage, other)

    def add_pieces(self, storage: Storage, members: Sequence[Piece]) -> Piece:
        """Return the sum of pieces in an array with this storage; the only piece itself if it has that storage."""
        if len(members) == 1 and members[0].storage.is_like(storage):
            return members[0]
        support = disj(*(conj(x.storage.lattice, x.storage.support) for x in members))
        storage = replace(storage, support=support)
        return self.make_piece(self.add_members(storage, members), storage)

    def add_members(self, storage: Storage, members: Sequence[Piece]) -> Accumulate:
        """Return the action that adds pieces on the box of a storage."""
        addends = []
        for piece in members:
            if piece.storage.is_like(storage):
                places = tuple(Affine.of(u) for u, _ in storage.coordinates)
                addends.append(Masked(Access(piece.name, places)))
            else:
                addends.append(self.mask_piece(piece, storage.index_map, storage.coordinates, TRUE))
        return Accumulate(storage.coordinates, tuple(addends))

    def densify_piece(self, piece: Piece) -> Piece:
        """Return a piece that is stored by positions of relations as one that is stored by its indices."""
        if not piece.storage.positions:
            return piece
        whole = full_storage(piece.storage.gens, piece.storage.support)
        places = zip(piece.storage.inverse, piece.storage.extents, strict=True)
        stored = (
            in_range(a, Affine.of(n))
            for a, n in places
            if not a.names.isdisjoint(piece.storage.positions)
        )
        # The condition names the positions, so that they stay positions.
        p = conj(piece.storage.lattice, *stored)
        (d,) = self.find_domains(piece.storage.gens, (), p)
        scatter_to = tuple(
            (Affine.of(g).substitute(d.index_map), n.constant) for g, n in piece.storage.gens
        )
        at = {**piece.storage.substitutions_at(pointwise(piece.storage.gens)), **d.index_map}
        read = Access(piece.name, tuple(a.substitute(at) for a in piece.storage.inverse))
        used = used_lookups(d.lookups, names_of((*read.indices, *(a for a, _ in scatter_to))))
        return self.make_piece(Contract(d.out, (), (read,), TRUE, used, scatter_to), whole)

    def single_piece(self, name: str) -> Piece:
        """Return a variable as one piece."""
        pieces = self.pieces[name]
        if len(pieces) == 1:
            return pieces[0]
        whole = full_storage(self.gens[name])
        return self.add_pieces(whole, [self.densify_piece(piece) for piece in pieces])

    def full_array(self, name: str) -> str:
        """Return the array of a variable in the form in which the program returns it."""
        storage = full_storage(self.gens[name])
        pieces = self.pieces[name]
        if not pieces:
            return self.add_step(Fill(storage.coordinates, 0))
        return self.add_pieces(storage, [self.densify_piece(piece) for piece in pieces]).name


def remaining_test(
    p: Predicate, box: Binders, known: Predicate, lookups: Sequence[IndexLookup]
) -> Predicate:
    """Return what remains to be tested of `p`, given a known condition and the lookups."""
    entries = {(x.relation, x.subscripts): Affine.of(x.name) for x in lookups if not x.searched}
    parts = [q for q in conjuncts(p) if not (is_asserted(q) and _is_looked_up(q, entries))]
    return remaining_condition(conj(*parts), box, known)


def _is_looked_up(q: Related, entries: Mapping[tuple[str, tuple[Affine, ...]], Affine]) -> bool:
    """Whether an atom holds for what its arguments are: the entry of an index array, or a row."""
    if not q.arguments:
        return False
    if entries.get((q.relation, q.arguments[:-1])) == q.arguments[-1]:
        return True
    for relation, (row, *_) in (key for key in entries if key[1]):
        if relation in (q.relation, table_name(q.relation)):
            columns = (
                entries.get((relation, (row, Affine.of(k)))) for k in range(len(q.arguments))
            )
            if tuple(columns) == q.arguments:
                return True
    return False
