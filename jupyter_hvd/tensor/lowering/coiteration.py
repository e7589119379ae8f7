"""Indices that data determine: entries of index arrays, and the tuples of a relation.

`R(a, …)` over a set of tuples holds for exactly one row of its table where it holds at all, so
`Σi,j. [R(i,j)]·e` is `Σρ. e` over the rows with `i = R[ρ, 0]` and `j = R[ρ, 1]`. In `[src(e, j)]`
the entry `src[e]` is `j`. Either way an index that data give is eliminated like one that an
equality gives; `δ` names stand for the entries. Where several relations share indices, it may be the
tuples on which they agree that are run over (`joins`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from math import inf, prod

from ..language.affine import Affine
from ..language.predicates import (
    TRUE,
    Predicate,
    Related,
    compare,
    conj,
    conjuncts,
    in_range,
    is_asserted,
    solve,
)
from ..language.predicates import substitute as substitute_predicate
from ..language.terms import Binder, Binders, index_names
from ..language.types import IndexArray, ParameterType, Relation, TupleSet
from .coo import table_name
from .ir import IndexLookup
from .relation_joins import (
    SMALL,
    Join,
    TupleCounts,
    connected_groups,
    expected_count,
    is_joinable,
    join_atoms,
)

SEARCH = (
    8  # entries of a mask that are read in the time, at least, in which a tuple is sought in a set
)
GATHER = 4  # entries of a mask that are read in the time of one that is gathered


class Position(str):
    """The position in a relation's table of the tuple of indices that an atom is about: an index
    variable, equal to others of its name, that knows its atom.
    """

    __slots__ = ("atom",)
    atom: Related

    def __new__(cls, atom: Related) -> Position:
        made = super().__new__(cls, f"ρ{atom.relation}({','.join(map(str, atom.arguments))})")
        made.atom = atom
        return made

    def substitute(self, values: Mapping[str, Affine]) -> Position:
        """Return the position for other indices."""
        atom = substitute_predicate(self.atom, values)
        assert isinstance(atom, Related)
        return Position(atom)


@dataclass(frozen=True)
class Coiteration:
    """A space without the indices that data determine.

    `values` gives each of those over the rest and the lookups. `positions` are those in the tables
    of the relations iterated over, and of what is joined in them; of relations between generators
    alone they are among the generators. `joins` are the joins iterated over. `places` gives of the
    positions among the generators those that a join has: there the terms go.
    """

    gens: Binders
    sums: Binders
    condition: Predicate
    values: Mapping[str, Affine]
    lookups: tuple[IndexLookup, ...]
    positions: tuple[Position, ...]
    joins: tuple[Related, ...]
    places: Mapping[Position, Affine]


def coiterate(
    gens: Binders,
    sums: Binders,
    p: Predicate,
    types: Mapping[str, ParameterType],
    counts: TupleCounts,
) -> Coiteration:
    """Eliminate the indices that data determine: entries of index arrays, and tuples of relations.

    Args:
        counts: the number of tuples of each relation that is given by them.
    """
    positions: list[Position] = []
    lookups: list[IndexLookup] = []
    named: dict[tuple[str, tuple[Affine, ...]], str] = {}
    rest: list[Predicate] = []
    values: dict[str, Affine] = {}
    places: dict[Position, Affine] = {}
    extents = dict((*gens, *sums))
    inner = {*index_names(sums)}
    chosen = Tables(gens, sums, p, types, counts).chosen

    def look_up(relation: str, subscripts: tuple[Affine, ...]) -> Affine:
        key = (relation, subscripts)
        if key not in named:
            named[key] = f"δ{len(named)}"
            lookups.append(IndexLookup(named[key], relation, subscripts))
        return Affine.of(named[key])

    def bind_indices(q: Related) -> Binder:
        position = Position(q)
        positions.append(position)
        extents[position] = Affine.of(counts.known[q.relation])
        return Binder(position, extents[position])

    def look_within(q: Related, row: Affine) -> None:
        """The positions of what a join has joined."""
        assert isinstance(q.relation, Join)
        for k, part in enumerate(
            q.relation.substitute_variables(q.arguments), start=len(q.arguments)
        ):
            place, position = look_up(q.relation, (row, Affine.of(k))), Position(part)
            if part in chosen.placed:
                places[position] = place
            elif position not in values:
                values[position] = place
                positions.append(position)
                if isinstance(part.relation, Join):
                    look_within(part, place)

    def iterate_over(q: Related) -> None:
        nonlocal gens, sums
        if q.names & inner or not q.names:  # of a tuple that is known, nothing is left to store
            sums = (*sums, bind_indices(q))
        else:
            gens = (*gens, bind_indices(q))
        row = Affine.of(Position(q))
        rows = q.relation if is_table(q.relation, types) else table_name(q.relation)
        for k, a in enumerate(q.arguments):
            rest.append(compare("=", a, look_up(rows, (row, Affine.of(k)))))
        if isinstance(q.relation, Join):
            look_within(q, row)

    for q in conjuncts(p):
        if not is_asserted(q):
            rest.append(q)
        elif q in chosen.iterated:
            iterate_over(q)
        elif isinstance(kind := types.get(q.relation), IndexArray):
            *subscripts, last = q.arguments
            rest += [in_range(a, n) for a, n in zip(subscripts, kind.dims, strict=True)]
            rest.append(compare("=", last, look_up(q.relation, tuple(subscripts))))
        elif q not in chosen.joined:
            rest.append(q)
    for q in chosen.iterated:
        if Position(q) not in positions:
            iterate_over(q)
    gens = (*gens, *(bind_indices(q) for q in chosen.placed))
    condition = substitute_predicate(conj(*rest), values)
    while (found := _find_solvable(condition, gens, sums, lookups)) is not None:
        index, value = found
        at = {index: value}
        inside = _range_condition(value, extents[index], lookups, types)
        condition = conj(inside, substitute_predicate(condition, at))
        values = {i: a.substitute(at) for i, a in values.items()} | at
        lookups = [x.substitute(at) for x in lookups]
        gens = tuple(b for b in gens if b[0] != index)
        sums = tuple(b for b in sums if b[0] != index)
    joins = tuple(q for q in chosen.iterated if isinstance(q.relation, Join))
    return Coiteration(
        gens, sums, condition, values, _order_lookups(lookups), tuple(positions), joins, places
    )


def is_table(relation: str, types: Mapping[str, ParameterType]) -> bool:
    """Whether a relation is given only by its rows, without a mask."""
    return isinstance(relation, Join) or isinstance(types[relation], TupleSet)


@dataclass(frozen=True)
class ChosenRelations:
    """The relations to iterate over, in order. The `joined` ones hold within these; the result is stored by positions of the
    `placed` ones.
    """

    iterated: tuple[Related, ...]
    joined: frozenset[Related] = frozenset()
    placed: tuple[Related, ...] = ()


def _range_condition(
    a: Affine, n: Affine, lookups: Sequence[IndexLookup], types: Mapping[str, ParameterType]
) -> Predicate:
    """Return `0 ≤ a < n`, or TRUE if the entries of an index array are known to be in range."""
    for x in lookups:
        kind = types.get(x.relation)
        if a == Affine.of(x.name) and isinstance(kind, IndexArray) and kind.below is not None:
            return TRUE if kind.below <= n.constant else in_range(a, n)
    return in_range(a, n)


@dataclass(frozen=True)
class Tables:
    """The relations of a space, any of which may be iterated over tuple by tuple."""

    gens: Binders
    sums: Binders
    predicate: Predicate
    types: Mapping[str, ParameterType]
    counts: TupleCounts

    @cached_property
    def related(self) -> list[Related]:
        """The atoms of the space's predicate."""
        return [q for q in conjuncts(self.predicate) if is_asserted(q)]

    @cached_property
    def extents(self) -> dict[str, int]:
        """The size of each index."""
        return {i: n.constant for i, n in (*self.gens, *self.sums)}

    def tuple_count(self, q: Related) -> int:
        """Return the number of tuples of a relation."""
        return self.counts.known[q.relation]

    def has_mask(self, q: Related) -> bool:
        """Whether the relation is a boolean array, too."""
        return isinstance(self.types.get(q.relation), Relation)

    def tuple_price(self, q: Related) -> int:
        """Return the cost of visiting a tuple, in reads of mask entries."""
        return GATHER if self.has_mask(q) else 1

    def combination_count(self, names: Iterable[str]) -> int:
        """Return the number of combinations of values of some indices."""
        return prod(self.extents[i] for i in names)

    def determined_indices(self, q: Related, known: AbstractSet[str]) -> set[str]:
        """Return the indices that a tuple determines, given the known ones: one per argument, with factor 1 or -1."""
        found: set[str] = set()
        for a in q.arguments:
            names = [i for i, k in a.terms if abs(k) == 1 and i not in known | found]
            found |= set(names[:1])
        return found

    def is_stored(self, q: Related) -> bool:
        """Whether something is read that is stored by the positions of its tuples."""
        return Position(q) in self.predicate.names

    @cached_property
    def chosen(self) -> ChosenRelations:
        """Choose which relations to iterate over; the others are probed.

        Relations that share indices are joined where the tuples that agree are fewer than what would be
        visited else: first those between generators, by whose positions the result is then stored,
        then all.
        """
        holding = {
            part for q in self.related if isinstance(q.relation, Join) for part in joined_parts(q)
        }
        roots = [q for q in self.related if q.relation in self.counts.known and q not in holding]
        outer = {*index_names(self.gens)}
        for group in connected_groups(q for q in roots if q.names <= outer):
            if (join := self.join_relations(group)) is not None:
                roots = [*(q for q in roots if q not in group), join]
                holding |= {*joined_parts(join)}
        for group in connected_groups(roots):
            if all(q.names <= outer for q in group):
                continue
            if (join := self.join_relations(group)) is not None:
                roots = [*(q for q in roots if q not in group), join]
                holding |= {*joined_parts(join)}
        forced = [q for q in roots if self.is_forced(q)]
        iterated, known = self.iterated_relations(roots, forced)
        if not forced and self.matrix_operations() < GATHER * self.visited_points(iterated, known):
            iterated = []
        return ChosenRelations(
            tuple(iterated), frozenset(holding), self.placed_generators(iterated, outer)
        )

    def placed_generators(
        self, iterated: Sequence[Related], outer: AbstractSet[str]
    ) -> tuple[Related, ...]:
        """Return the atoms over generators only, by whose positions the result of a sum over joins is stored."""
        over = [q for q in iterated if isinstance(q.relation, Join) and not q.names <= outer]
        parts = dict.fromkeys(part for q in over for part in joined_parts(q))
        kept = [q for q in parts if q.names <= outer]
        within = {part for q in kept for part in joined_parts(q)}
        kept = [q for q in kept if q not in within]
        return tuple(self.iterated_relations(kept, [q for q in kept if self.is_forced(q)])[0])

    def is_forced(self, q: Related) -> bool:
        """Whether it has to be iterated over."""
        return isinstance(q.relation, Join) or self.is_stored(q)

    def join_relations(self, group: Sequence[Related]) -> Related | None:
        """Return the join of some relations; None if it is not worthwhile."""
        if len(group) < 2 or not all(map(is_joinable, group)):
            return None
        iterated, known = self.iterated_relations(group, [q for q in group if self.is_forced(q)])
        left = set[str]().union(*(q.names for q in group)) - known
        visited = prod(map(self.tuple_count, iterated)) * self.combination_count(left)
        visited = visited if iterated else visited // max(GATHER, 1)
        if all(map(self.has_mask, self.related)) and not any(map(self.is_stored, group)):
            visited = min(visited, int(self.matrix_operations()) // max(GATHER, 1))
        if visited * (1 if all(map(self.has_mask, group)) else SEARCH) < SMALL:
            return None
        join = join_atoms(group)
        assert isinstance(join.relation, Join)
        rows = expected_count(group, [self.tuple_count(q) for q in group], self.extents)
        return join if self.counts.is_worthwhile(join.relation, rows, visited) else None

    def iterated_relations(
        self, atoms: Sequence[Related], forced: Sequence[Related]
    ) -> tuple[list[Related], set[str]]:
        """Return which relations to iterate over, and the indices that their tuples determine.

        A relation is iterated over if its tuples are fewer than the values of the indices that they determine; those that save
        most come first. `R(i, j) ∧ S(j, k)` is run over by the tuples of R, and by those of S only if they are fewer than the
        values of k. Arrays stored by positions are read by them.
        """
        known = {i for q in forced for i in q.names}
        chosen = list(forced)

        def price_per_combination(q: Related) -> float:
            return (
                self.tuple_price(q)
                * self.tuple_count(q)
                / max(self.combination_count(self.determined_indices(q, known)), 1)
            )

        waiting = [q for q in atoms if q not in chosen]
        while waiting:
            best = min(waiting, key=price_per_combination)
            waiting.remove(best)
            if self.determined_indices(best, known) and price_per_combination(best) <= 1:
                known |= self.determined_indices(best, known)
                chosen.append(best)
        return chosen, known

    def visited_points(self, iterated: Sequence[Related], known: AbstractSet[str]) -> int:
        """Return how many points are visited if some relations are iterated over tuple by tuple."""
        left = set[str]().union(*(q.names for q in self.related)) - known
        return prod(map(self.tuple_count, iterated)) * self.combination_count(left)

    def matrix_operations(self) -> float:
        """Return the operations of multiplying the relations as matrices; infinite if one has no mask, or there is only one."""
        if len(self.related) < 2 or not all(map(self.has_mask, self.related)):
            return inf
        kept = [g for g, _ in self.gens if any(g in q.names for q in self.related)]
        axes = [sorted(q.names) for q in self.related]
        return _count_matrix_operations(axes, kept, self.extents)


def joined_parts(q: Related) -> Iterator[Related]:
    """Yield the atoms that hold where a join does, at its indices."""
    if isinstance(q.relation, Join):
        for part in q.relation.substitute_variables(q.arguments):
            yield part
            yield from joined_parts(part)


def _count_matrix_operations(
    operands: Sequence[Sequence[str]], kept: Sequence[str], extents: Mapping[str, int]
) -> float:
    """Return the operations of a product of arrays with these axes and a vector for each axis, summed over all axes but
    `kept`.
    """
    import opt_einsum

    axes = sorted({i for operand in operands for i in operand})
    letters = {i: opt_einsum.get_symbol(k) for k, i in enumerate(axes)}
    factors = [*operands, *([i] for i in axes)]
    spelt = ["".join(letters[i] for i in factor) for factor in (*factors, kept)]
    shapes = [tuple(extents[i] for i in factor) for factor in factors]
    subscripts = f"{','.join(spelt[:-1])}->{spelt[-1]}"
    return float(opt_einsum.contract_path(subscripts, *shapes, shapes=True)[1].opt_cost)


def _find_solvable(
    condition: Predicate, gens: Binders, sums: Binders, lookups: list[IndexLookup]
) -> tuple[str, Affine] | None:
    """Return an index that an equality determines, with its value; a summed index if possible; None if there is none."""
    sources = {x.name: frozenset().union(*(a.names for a in x.subscripts)) for x in lookups}

    def names_behind(a: Affine) -> frozenset[str]:
        names, seen = set(a.names), set[str]()
        while names - seen:
            name = (names - seen).pop()
            seen.add(name)
            names |= sources.get(name, frozenset())
        return frozenset(names)

    for index in index_names((*sums, *gens)):
        for q in conjuncts(condition):
            value = solve(q, index) if q.names & sources.keys() else None
            if value is not None and index not in names_behind(value):
                return index, value
    return None


def _order_lookups(lookups: list[IndexLookup]) -> tuple[IndexLookup, ...]:
    """Return the lookups without duplicates, each after those that its subscripts use."""
    made: list[IndexLookup] = []
    waiting = list(lookups)
    while waiting:
        names = {x.name for x in waiting}
        ready = [x for x in waiting if not any(a.names & names for a in x.subscripts)]
        assert ready, "lookups in a ring"
        made += ready
        waiting = [x for x in waiting if x not in ready]
    return tuple(made)
