"""The iteration domains of steps, and how what they make is stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..language.affine import Affine
from ..language.predicates import (
    TRUE,
    Compare,
    Exists,
    Predicate,
    conj,
    conjuncts,
    exists_all,
    in_range,
    is_asserted,
    substitute,
)
from ..language.terms import Binder, Binders, index_names
from ..language.types import ParameterType
from ..polyhedral.lattice import (
    Frame,
    affine_part,
    disjoint_cases,
    find_digits,
    find_preimage,
    make_frame,
    project_set,
    superset,
)
from ..polyhedral.sets import simplify
from .coiteration import Coiteration, Position, coiterate, joined_parts
from .dataflow import axes_of
from .ir import IndexLookup, extents_of
from .relation_joins import TupleCounts
from .storage import Storage


@dataclass(frozen=True)
class IterationDomain:
    """The points that a step runs over.

    `out` and `sums` are its axes, `index_map` the value of each index of the statement on them, `condition` what holds at its
    points; `storage` is that of the result. `scatter_to` are the result's own indices if they differ from `out`; `positions`
    are those of relations.
    """

    storage: Storage
    out: Binders
    sums: Binders
    index_map: Mapping[str, Affine]
    condition: Predicate
    lookups: tuple[IndexLookup, ...]
    scatter_to: tuple[tuple[Affine, int], ...]
    positions: frozenset[Position]


def iteration_domains(
    gens: Binders,
    sums: Binders,
    p: Predicate,
    types: Mapping[str, ParameterType],
    counts: TupleCounts,
) -> Iterator[IterationDomain]:
    """Yield the disjoint domains that together are `{gens, sums | p}`."""
    found = coiterate(gens, sums, p, types, counts)
    support = _support_of_sum(gens, sums, p)
    for case in disjoint_cases((*found.gens, *found.sums), found.condition):
        box = _box_case(found, case)
        if box is not None:
            yield _case_domain(gens, p, support, found, box)


@dataclass(frozen=True)
class _Box:
    """What encloses a case of a predicate: the frame `outer` of its generators, and the frame
    `whole` of that one's coordinates and the summed indices. `space` is the case over these two.
    """

    case: Predicate
    outer: Frame
    whole: Frame
    space: Any
    index_map: Mapping[str, Affine]

    @property
    def out(self) -> Binders:
        """The axes of the result."""
        return self.whole.coordinates[: len(self.outer.coordinates)]

    @property
    def sums(self) -> Binders:
        """The axes that are summed."""
        return self.whole.coordinates[len(self.outer.coordinates) :]


def _box_case(found: Coiteration, case: Predicate) -> _Box | None:
    """Return the frames around one case of a predicate; None if it is empty."""
    gens, sums = [*index_names(found.gens)], [*index_names(found.sums)]
    space = superset((*found.gens, *found.sums), case)
    outer = make_frame(gens, project_set(space, len(gens)))
    if outer is None:
        return None
    kept = [*index_names(outer.coordinates)]
    forward = {**outer.index_map, **{i: Affine.of(i) for i in sums}}
    space = find_preimage(space, [*gens, *sums], forward, [*kept, *sums])
    whole = make_frame([*kept, *sums], space, len(kept), "r")
    assert whole is not None
    index_map = {i: a.substitute(whole.index_map) for i, a in forward.items()}
    return _Box(case, outer, whole, space, index_map)


def _case_domain(
    gens: Binders, p: Predicate, support: Predicate, found: Coiteration, box: _Box
) -> IterationDomain:
    """Return the domain of one case."""
    at = box.index_map
    lookups = tuple(x.substitute(at) for x in found.lookups)
    values = {i: a.substitute(at) for i, a in found.values.items()}
    ranges = (in_range(Affine.of(i), n) for i, n in (*found.gens, *found.sums))
    domain = IterationDomain(
        _gather_domain(gens, box.outer, found, p, support),
        box.out,
        box.sums,
        {**at, **values},
        substitute(conj(box.case, *ranges), at),
        lookups,
        (),
        frozenset(found.positions),
    )
    by_data = [g for g, _ in gens if g in values]
    places = {position: a.substitute(at) for position, a in found.places.items()}
    needed = axes_of([*(values[g] for g in by_data), *places.values()], lookups)
    # Of a sum, too, over the only tuple of a relation, which has no axis.
    sources = axes_of([found.values[g] for g in by_data], found.lookups)
    summed = sources & {*index_names(found.sums)}
    if by_data and (summed or places or not determined_generators(gens, p).issuperset(by_data)):
        return _scatter_domain(
            domain, box, needed, values, places, _equal_or_placed(gens, p, places)
        )
    return domain if lookups else _fold_axis(domain, box)


def _fold_axis(domain: IterationDomain, box: _Box) -> IterationDomain:
    """Return a domain in which an index u of the result that is `k·r + e + c`, with a summed r and `0 ≤ e < k`, is replaced by
    r and e, and e in turn by its digits, if it has some.

    The step runs over these, which are no more points than u has values, and sends each term to u.
    """
    names = [*index_names((*domain.out, *domain.sums))]
    space = find_preimage(box.space, list(box.whole.index_map), box.whole.index_map, names)
    out, sums = domain.out, domain.sums
    to = {i: Affine.of(i) for i in names}
    while sums:
        first = sums == domain.sums
        # Digits of digits are joined by a reshape, with no shift before the next one.
        digits = find_digits(space, out, sums)
        found = [one for one in digits if first or not one.address.constant]
        if not found:
            break
        step = {i: Affine.of(i) for i in names} | {one.u: one.address for one in found}
        values, leading = {one.u: one.values for one in found}, {one.r for one in found}
        space = find_preimage(space, names, step, names)
        to = {i: a.substitute(step) for i, a in to.items()}
        out = tuple(Binder(i, values.get(i, m)) for i, m in out)
        out = (*out, *(b for b in sums if b.name in leading))
        sums = tuple(b for b in sums if b.name not in leading)
    if len(sums) == len(domain.sums):
        return domain
    return replace(
        domain,
        out=out,
        sums=sums,
        index_map={i: a.substitute(to) for i, a in domain.index_map.items()},
        condition=substitute(domain.condition, to),
        scatter_to=tuple((to[i], m.constant) for i, m in domain.out),
    )


def determined_generators(gens: Binders, p: Predicate) -> frozenset[str]:
    """Return the generators that relations among generators determine, closed under equalities."""
    names = {*index_names(gens)}
    found: set[str] = set()
    for q in conjuncts(p):
        if is_asserted(q) and q.names <= names:
            found |= q.names
    waiting = list(_generator_equalities(gens, p))
    for _ in range(len(waiting)):
        for q in waiting:
            left = q.names - found
            if len(left) == 1 and abs(q.difference.coefficient(*left)) == 1:
                found |= left
    return frozenset(found)


def _generator_equalities(gens: Binders, p: Predicate) -> Iterator[Compare]:
    """Yield the equalities between generators in a predicate."""
    names = {*index_names(gens)}
    for q in conjuncts(p):
        if isinstance(q, Compare) and q.op == "=" and q.names <= names:
            yield q


def _gather_domain(
    gens: Binders, around: Frame, found: Coiteration, p: Predicate, support: Predicate
) -> Storage:
    """Return the storage over a frame's coordinates; indices that data determine are not stored."""
    forward, names = around.index_map, {*index_names(gens)}
    used = around.lattice_condition().names.union(*(a.names for a in around.inverse))
    positions = tuple(position for position in found.positions if position in used)
    by_data = bool(positions) or any(g in found.values for g in names)
    joined = {part for q in found.joins for part in joined_parts(q)}
    related = (*(q for q in conjuncts(p) if is_asserted(q)), *found.joins)
    atoms = dict.fromkeys(q for q in related if q.names <= names and q not in joined)
    return Storage(
        gens,
        extents_of(around.coordinates),
        around.inverse,
        tuple(forward.get(g) for g, _ in gens),
        conj(
            around.lattice_condition(),
            *((*atoms, *_generator_equalities(gens, p)) if by_data else ()),
        ),
        support,
        positions,
    )


def _scatter_domain(
    domain: IterationDomain,
    box: _Box,
    needed: frozenset[str],
    values: Mapping[str, Affine],
    places: Mapping[Position, Affine],
    among: Predicate,
) -> IterationDomain:
    """Return the domain with a result that is stored in full along the indices that data determine, because they differ from
    term to term of a sum.

    The `needed` axes of these are not summed before. Indices that a tuple's position determines, in `places`, are not stored;
    `among` is what holds for them.
    """
    gens, around = domain.storage.gens, box.outer
    positions = domain.positions - places.keys()
    kept = [
        (u, n.constant, a)
        for (u, n), a in zip(around.coordinates, around.inverse, strict=True)
        if not a.names & positions
    ]
    to: dict[str, Affine] = {str(position): a for position, a in places.items()}
    gone = {u: a.substitute(to) for u, _, a in kept if a.names & places.keys()}
    placed = {i for position in places for i in position.atom.names}
    by_data = [(g, n.constant) for g, n in gens if g in values and g not in placed]
    scatter_to = (
        *((gone.get(u, Affine.of(u)), n) for u, n, _ in kept),
        *((values[g], n) for g, n in by_data),
    )
    place = {u: Affine.of(f"u{k}") for k, (u, _, _) in enumerate(kept)}
    whole = {g: Affine.of(f"u{len(kept) + k}") for k, (g, _) in enumerate(by_data)}
    forward: dict[str, Affine | None] = {
        g: None if g in placed and g in values else around.index_map[g].substitute(place)
        for g, _ in gens
        if g not in whole
    }
    storage = Storage(
        gens,
        tuple(n for _, n in scatter_to),
        (*(a for _, _, a in kept), *(Affine.of(g) for g, _ in by_data)),
        tuple({**forward, **whole}[g] for g, _ in gens),
        conj(*(q for q in conjuncts(around.lattice_condition()) if not q.names & positions), among),
        domain.storage.support,
        tuple(places),
    )
    if not scatter_to:  # one tuple, at a known place: all is summed there
        needed = frozenset()
    return replace(
        domain,
        storage=storage,
        out=(
            *(b for b in domain.out if b[0] not in gone),
            *(b for b in domain.sums if b[0] in needed),
        ),
        sums=tuple(b for b in domain.sums if b[0] not in needed),
        index_map={i: a.substitute(gone) for i, a in domain.index_map.items()},
        condition=substitute(domain.condition, gone),
        lookups=tuple(x.substitute(gone) for x in domain.lookups),
        scatter_to=scatter_to,
    )


def _equal_or_placed(gens: Binders, p: Predicate, places: Mapping[Position, Affine]) -> Predicate:
    """Return what holds for generators that positions determine."""
    if not places:
        return TRUE
    return conj(*(position.atom for position in places), *_generator_equalities(gens, p))


def _support_of_sum(gens: Binders, sums: Binders, p: Predicate) -> Predicate:
    """Return a condition on the generators outside of which `Σ sums. [p]·e` is zero."""
    names = [*index_names(gens)]
    inner = {*index_names(sums)}
    outside = [q for q in conjuncts(p) if not q.names & inner]
    if sums:
        affine = affine_part(conj(*(q for q in conjuncts(p) if not q.relations)), [*names, *inner])
        left = simplify(exists_all(sums, affine), gens)
        outside += [q for q in conjuncts(left) if not isinstance(q, Exists) and q not in outside]
    return simplify(conj(*outside), gens)
