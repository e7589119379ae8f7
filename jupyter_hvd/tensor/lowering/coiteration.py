"""Indices that data determine: entries of index arrays, and the tuples of a relation.

`R(a, …)` over a set of tuples holds for exactly one row of its table where it holds at all, so
`Σi,j. [R(i,j)]·e` is `Σρ. e` over the rows with `i = R[ρ, 0]` and `j = R[ρ, 1]`. In `[src(e, j)]`
the entry `src[e]` is `j`. Either way an index that data give is eliminated like one that an
equality gives; `δ` names stand for the entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from math import prod

from ..language.affine import Affine
from ..language.predicates import (
    TRUE,
    Predicate,
    Related,
    asserted,
    compare,
    conj,
    conjuncts,
    in_range,
    solve,
)
from ..language.predicates import substitute as substitute_predicate
from ..language.terms import Binder, Binders, index_names
from ..language.types import IndexArray, ParameterType, Relation, TupleSet
from .coo import table
from .ir import IndexLookup

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
        """That of other indices."""
        atom = substitute_predicate(self.atom, values)
        assert isinstance(atom, Related)
        return Position(atom)


@dataclass(frozen=True)
class Coiteration:
    """A space without the indices that data determine.

    `values` gives each of those over the rest and the lookups. `positions` are those in the tables
    of the relations iterated over; of relations between generators alone they are among the
    generators.
    """

    gens: Binders
    sums: Binders
    condition: Predicate
    values: Mapping[str, Affine]
    lookups: tuple[IndexLookup, ...]
    positions: tuple[Position, ...]


def coiterate(
    gens: Binders,
    sums: Binders,
    p: Predicate,
    types: Mapping[str, ParameterType],
    counts: Mapping[str, int],
) -> Coiteration:
    """Eliminate what data determine; `counts` has the number of tuples of each relation that is
    given by them.
    """
    positions: list[Position] = []
    lookups: list[IndexLookup] = []
    named: dict[tuple[str, tuple[Affine, ...]], str] = {}
    rest: list[Predicate] = []
    extents = dict((*gens, *sums))
    inner = {*index_names(sums)}

    def look(relation: str, subscripts: tuple[Affine, ...]) -> Affine:
        key = (relation, subscripts)
        if key not in named:
            named[key] = f"δ{len(named)}"
            lookups.append(IndexLookup(named[key], relation, subscripts))
        return Affine.of(named[key])

    iterated = Tables(gens, sums, p, types, counts).iterated
    for q in conjuncts(p):
        if not asserted(q):
            rest.append(q)
        elif q in iterated:
            positions.append(position := Position(q))
            is_set = isinstance(types[q.relation], TupleSet)
            rows = q.relation if is_set else table(q.relation)
            extents[position] = Affine.of(counts[q.relation])
            if q.names & inner:
                sums = (*sums, Binder(position, extents[position]))
            else:
                gens = (*gens, Binder(position, extents[position]))
            for k, a in enumerate(q.arguments):
                entry = look(rows, (Affine.of(position), Affine.of(k)))
                rest.append(compare("=", a, entry))
        elif isinstance(kind := types[q.relation], IndexArray):
            *subscripts, last = q.arguments
            rest += [in_range(a, n) for a, n in zip(subscripts, kind.dims, strict=True)]
            rest.append(compare("=", last, look(q.relation, tuple(subscripts))))
        else:
            rest.append(q)
    condition = conj(*rest)
    values: dict[str, Affine] = {}
    while (found := _solvable(condition, gens, sums, lookups)) is not None:
        index, value = found
        at = {index: value}
        inside = _inside(value, extents[index], lookups, types)
        condition = conj(inside, substitute_predicate(condition, at))
        values = {i: a.substitute(at) for i, a in values.items()} | at
        lookups = [x.substitute(at) for x in lookups]
        gens = tuple(b for b in gens if b[0] != index)
        sums = tuple(b for b in sums if b[0] != index)
    return Coiteration(gens, sums, condition, values, _ordered(lookups), tuple(positions))


def _inside(
    a: Affine, n: Affine, lookups: Sequence[IndexLookup], types: Mapping[str, ParameterType]
) -> Predicate:
    """`0 ≤ a < n`, unless the entries of an index array are known to be."""
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
    counts: Mapping[str, int]

    @cached_property
    def related(self) -> list[Related]:
        return [q for q in conjuncts(self.predicate) if asserted(q)]

    @cached_property
    def extents(self) -> dict[str, int]:
        return {i: n.constant for i, n in (*self.gens, *self.sums)}

    def rows(self, q: Related) -> int:
        """The number of tuples."""
        return self.counts[q.relation]

    def price(self, q: Related) -> int:
        """What a tuple costs, in entries of a mask that are read in that time."""
        return GATHER if isinstance(self.types[q.relation], Relation) else 1

    def combinations(self, names: Iterable[str]) -> int:
        """How many values some indices have together."""
        return prod(self.extents[i] for i in names)

    def determines(self, q: Related, known: AbstractSet[str]) -> set[str]:
        """The indices that a tuple gives beside the known ones: of each argument one, where its
        factor is 1 or -1.
        """
        found: set[str] = set()
        for a in q.arguments:
            names = [i for i, k in a.terms if abs(k) == 1 and i not in known | found]
            found |= set(names[:1])
        return found

    @cached_property
    def iterated(self) -> frozenset[Related]:
        """Choose which relations to iterate over; the others are probed.

        Iterated are those of which going over the tuples is less than going over the indices that
        they determine, the ones that save most first: `R(i, j) ∧ S(j, k)` is run over by the tuples
        of R, and by those of S only if they are fewer than the values of k. An array that is stored
        by positions is read by them. Where all relations have masks, their product as matrices may
        cost less than any of this.
        """
        stored = [q for q in self.related if Position(q) in self.predicate.names]
        known = {i for q in stored for i in q.names}
        chosen = list(stored)

        def share(q: Related) -> float:
            return (
                self.price(q) * self.rows(q) / max(self.combinations(self.determines(q, known)), 1)
            )

        waiting = [q for q in self.related if q.relation in self.counts and q not in chosen]
        while waiting:
            best = min(waiting, key=share)
            waiting.remove(best)
            if self.determines(best, known) and share(best) <= 1:
                known |= self.determines(best, known)
                chosen.append(best)
        if not stored and self._is_cheaper_as_matrices(chosen, known):
            return frozenset()
        return frozenset(chosen)

    def _is_cheaper_as_matrices(self, chosen: Sequence[Related], known: AbstractSet[str]) -> bool:
        masks = all(isinstance(self.types[q.relation], Relation) for q in self.related)
        if len(self.related) < 2 or not masks:
            return False
        left = set[str]().union(*(q.names for q in self.related)) - known
        visited = GATHER * prod(map(self.rows, chosen)) * self.combinations(left)
        kept = [g for g, _ in self.gens if any(g in q.names for q in self.related)]
        axes = [sorted(q.names) for q in self.related]
        return visited > _as_matrices(axes, kept, self.extents)


def _as_matrices(
    operands: Sequence[Sequence[str]], kept: Sequence[str], extents: Mapping[str, int]
) -> float:
    """The operations of the product of arrays with these axes and of a vector for each axis, summed
    over all that are not kept.
    """
    import opt_einsum

    axes = sorted({i for operand in operands for i in operand})
    letters = {i: opt_einsum.get_symbol(k) for k, i in enumerate(axes)}
    factors = [*operands, *([i] for i in axes)]
    spelt = ["".join(letters[i] for i in factor) for factor in (*factors, kept)]
    shapes = [tuple(extents[i] for i in factor) for factor in factors]
    subscripts = f"{','.join(spelt[:-1])}->{spelt[-1]}"
    return float(opt_einsum.contract_path(subscripts, *shapes, shapes=True)[1].opt_cost)


def _solvable(
    condition: Predicate, gens: Binders, sums: Binders, lookups: list[IndexLookup]
) -> tuple[str, Affine] | None:
    """An index that an equality gives by entries which do not depend on it: a sum's, if any."""
    sources = {x.name: frozenset().union(*(a.names for a in x.subscripts)) for x in lookups}

    def depends(a: Affine) -> frozenset[str]:
        names, seen = set(a.names), set[str]()
        while names - seen:
            name = (names - seen).pop()
            seen.add(name)
            names |= sources.get(name, frozenset())
        return frozenset(names)

    for index in index_names((*sums, *gens)):
        for q in conjuncts(condition):
            value = solve(q, index) if q.names & sources.keys() else None
            if value is not None and index not in depends(value):
                return index, value
    return None


def _ordered(lookups: list[IndexLookup]) -> tuple[IndexLookup, ...]:
    """Each lookup after those that its subscripts use; none twice."""
    made: list[IndexLookup] = []
    waiting = list(lookups)
    while waiting:
        names = {x.name for x in waiting}
        ready = [x for x in waiting if not any(a.names & names for a in x.subscripts)]
        assert ready, "lookups in a ring"
        made += ready
        waiting = [x for x in waiting if x not in ready]
    return tuple(made)
