"""Indices that data determine: entries of index arrays, and the tuples of a relation.

`R(a, …)` over a set of tuples holds for exactly one row of its table where it holds at all, so
`Σi,j. [R(i,j)]·e` is `Σρ. e` over the rows with `i = R[ρ, 0]` and `j = R[ρ, 1]`. In `[src(e, j)]`
the entry `src[e]` is `j`. Either way an index that data give is eliminated like one that an
equality gives; `δ` names stand for the entries.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from ..language.affine import Affine
from ..language.predicates import (
    NOT,
    Compare,
    Predicate,
    Related,
    compare,
    conj,
    conjuncts,
    in_range,
)
from ..language.predicates import substitute as substitute_predicate
from ..language.terms import Binders
from ..language.types import IndexArray, ParameterType, Relation, TupleSet
from .coo import table
from .ir import Lookup

GATHER = 4  # entries of a mask that are read in the time of one that is gathered


@dataclass(frozen=True)
class Resolved:
    """A space without the indices that data determine.

    `values` gives each of those over the rest and the lookups. `rows` names the row of each
    relation atom; rows of relations between generators alone are among the generators.
    """

    gens: Binders
    sums: Binders
    condition: Predicate
    values: Mapping[str, Affine]
    lookups: tuple[Lookup, ...]
    rows: Mapping[Predicate, str]


def resolve(
    gens: Binders,
    sums: Binders,
    p: Predicate,
    types: Mapping[str, ParameterType],
    counts: Mapping[str, int],
) -> Resolved:
    """Eliminate what data determine; `counts` has the number of tuples of each relation that is
    given by them.
    """
    rows: dict[Predicate, str] = {}
    lookups: list[Lookup] = []
    named: dict[tuple[str, tuple[Affine, ...]], str] = {}
    rest: list[Predicate] = []
    extents = dict((*gens, *sums))
    inner = {i for i, _ in sums}

    def look(relation: str, places: tuple[Affine, ...]) -> Affine:
        key = (relation, places)
        if key not in named:
            named[key] = f"δ{len(named)}"
            lookups.append(Lookup(named[key], relation, places))
        return Affine.of(named[key])

    by_rows = _by_rows(p, gens, sums, types, counts)
    for q in conjuncts(p):
        if not isinstance(q, Related) or q.relation.startswith(NOT):
            rest.append(q)
        elif q in by_rows:
            row = rows[q] = row_name(q)
            name = q.relation if isinstance(types[q.relation], TupleSet) else table(q.relation)
            extents[row] = Affine.of(counts[q.relation])
            if q.names & inner:
                sums = (*sums, (row, extents[row]))
            else:
                gens = (*gens, (row, extents[row]))
            for k, a in enumerate(q.arguments):
                entry = look(name, (Affine.of(row), Affine.of(k)))
                rest.append(compare("=", a, entry))
        elif isinstance(kind := types[q.relation], IndexArray):
            *places, last = q.arguments
            rest += [in_range(a, n) for a, n in zip(places, kind.dims, strict=True)]
            rest.append(compare("=", last, look(q.relation, tuple(places))))
        else:
            rest.append(q)
    condition = conj(*rest)
    values: dict[str, Affine] = {}
    while (found := _solvable(condition, gens, sums, lookups)) is not None:
        index, value = found
        at = {index: value}
        condition = conj(in_range(value, extents[index]), substitute_predicate(condition, at))
        values = {i: a.substitute(at) for i, a in values.items()} | at
        lookups = [
            Lookup(x.name, x.relation, tuple(a.substitute(at) for a in x.places)) for x in lookups
        ]
        gens = tuple(b for b in gens if b[0] != index)
        sums = tuple(b for b in sums if b[0] != index)
    return Resolved(gens, sums, condition, values, _ordered(lookups), rows)


def _by_rows(
    p: Predicate,
    gens: Binders,
    sums: Binders,
    types: Mapping[str, ParameterType],
    counts: Mapping[str, int],
) -> frozenset[Predicate]:
    """The relations to run over tuple by tuple: where that is less than running over the indices
    that they determine, the ones that save most first. The others are looked up: `R(i, j) ∧
    S(j, k)` is run over by the tuples of R, and by those of S only if they are fewer than the
    values of k. Where all have masks, products of these as matrices may cost less still.
    """
    related = [q for q in conjuncts(p) if isinstance(q, Related) and not q.relation.startswith(NOT)]
    extents = {i: n.constant for i, n in (*gens, *sums)}
    chosen = [q for q in related if row_name(q) in p.names]  # an array is stored by these rows
    known = {i for q in chosen for i in q.names}
    needed = bool(chosen)

    def solved(q: Related) -> set[str]:
        """The indices that a tuple of q determines: of each argument one, where its factor is 1 or -1."""
        found: set[str] = set()
        for a in q.arguments:
            names = [i for i, k in a.terms if abs(k) == 1 and i not in known | found]
            found |= set(names[:1])
        return found

    def points(names: Iterable[str]) -> int:
        return prod(extents[i] for i in names)

    def share(q: Related) -> float:
        price = GATHER if isinstance(types[q.relation], Relation) else 1
        return price * counts[q.relation] / max(points(solved(q)), 1)

    waiting = [q for q in related if q.relation in counts and q not in chosen]
    while waiting:
        best = min(waiting, key=share)
        waiting.remove(best)
        if solved(best) and share(best) <= 1:
            known |= solved(best)
            chosen.append(best)
    if (
        not needed
        and len(related) > 1
        and all(isinstance(types[q.relation], Relation) for q in related)
    ):
        left = set().union(*(q.names for q in related)) - known
        visited = GATHER * prod(counts[q.relation] for q in chosen) * points(left)
        kept = [g for g, _ in gens if any(g in q.names for q in related)]
        if visited > _as_matrices([sorted(q.names) for q in related], kept, extents):
            return frozenset()
    return frozenset(chosen)


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


def row_name(atom: Related) -> str:
    """What the row of a relation's table with these indices is called."""
    return f"ρ{atom.relation}({','.join(map(str, atom.arguments))})"


def _solvable(
    condition: Predicate, gens: Binders, sums: Binders, lookups: list[Lookup]
) -> tuple[str, Affine] | None:
    """An index that an equality gives by entries which do not depend on it: a sum's, if any."""
    sources = {x.name: frozenset().union(*(a.names for a in x.places)) for x in lookups}

    def depends(a: Affine) -> frozenset[str]:
        names, seen = set(a.names), set[str]()
        while names - seen:
            name = (names - seen).pop()
            seen.add(name)
            names |= sources.get(name, frozenset())
        return frozenset(names)

    for index in (*(i for i, _ in sums), *(i for i, _ in gens)):
        for q in conjuncts(condition):
            if not isinstance(q, Compare) or q.op != "=" or not q.names & sources.keys():
                continue
            k = q.difference.coefficient(index)
            if abs(k) == 1:
                value = q.difference * -k + Affine.of(index)
                if index not in depends(value):
                    return index, value
    return None


def _ordered(lookups: list[Lookup]) -> tuple[Lookup, ...]:
    """Each lookup after those that its places use; none twice."""
    made: list[Lookup] = []
    waiting = list(lookups)
    while waiting:
        names = {x.name for x in waiting}
        ready = [x for x in waiting if not any(a.names & names for a in x.places)]
        assert ready, "lookups in a ring"
        made += ready
        waiting = [x for x in waiting if x not in ready]
    return tuple(made)
