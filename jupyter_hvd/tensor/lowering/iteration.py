"""The spaces that steps run over, and the layouts of what they make."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..language.affine import Affine
from ..language.predicates import (
    NOT,
    Compare,
    Exists,
    Predicate,
    Related,
    conj,
    conjuncts,
    exists_all,
    in_range,
    substitute,
)
from ..language.terms import Binders
from ..language.types import ParameterType
from ..polyhedral.lattice import (
    Frame,
    affine_part,
    cases,
    digits,
    frame,
    points,
    projected,
    seen_from,
)
from ..polyhedral.sets import simplify
from .coiteration import Resolved, resolve
from .ir import Lookup
from .storage import Layout


@dataclass(frozen=True)
class Domain:
    """The space that a step runs over.

    `out` and `sums` are its axes, `meaning` what each index of the statement is on them,
    `condition` what holds on its points; `layout` is that of the result. `targets` are the
    result's own indices where those differ from `out`; `rows` names the relations' rows.
    """

    layout: Layout
    out: Binders
    sums: Binders
    meaning: Mapping[str, Affine]
    condition: Predicate
    lookups: tuple[Lookup, ...]
    targets: tuple[tuple[Affine, int], ...]
    rows: frozenset[str]


def domains(
    gens: Binders,
    sums: Binders,
    p: Predicate,
    types: Mapping[str, ParameterType],
    counts: Mapping[str, int],
) -> Iterator[Domain]:
    """The disjoint spaces that `{gens, sums | p}` consists of."""
    found = resolve(gens, sums, p, types, counts)
    support = _support(gens, sums, p)
    inner = [i for i, _ in found.sums]
    for case in cases((*found.gens, *found.sums), found.condition):
        made = _domain(gens, found, inner, case, p, support)
        if made is not None:
            yield made


def _domain(
    gens: Binders,
    found: Resolved,
    inner: Sequence[str],
    case: Predicate,
    p: Predicate,
    support: Predicate,
) -> Domain | None:
    outer = [i for i, _ in found.gens]
    space = points((*found.gens, *found.sums), case)
    around = frame(outer, projected(space, len(outer)))
    if around is None:
        return None
    axes = [u for u, _ in around.coordinates]
    meaning = {**around.meaning, **{i: Affine.of(i) for i in inner}}
    seen = seen_from(space, [*outer, *inner], meaning, [*axes, *inner])
    inside = frame([*axes, *inner], seen, len(axes), "r")
    assert inside is not None
    at = {i: a.substitute(inside.meaning) for i, a in meaning.items()}
    lookups = tuple(
        Lookup(x.name, x.relation, tuple(a.substitute(at) for a in x.places)) for x in found.lookups
    )
    values = {i: a.substitute(at) for i, a in found.values.items()}
    out, rest = inside.coordinates[: len(axes)], inside.coordinates[len(axes) :]
    rows = frozenset(found.rows.values())
    by_data = [g for g, _ in gens if g in values]
    needed = axes_of([values[g] for g in by_data], lookups)
    targets: tuple[tuple[Affine, int], ...] = ()
    told = _told(gens, p)
    if by_data and (needed & {r for r, _ in rest} or not told.issuperset(by_data)):
        layout, targets = _scattered(gens, around, rows, values, support)
        out = (*out, *(b for b in rest if b[0] in needed))
        rest = tuple(b for b in rest if b[0] not in needed)
    else:
        layout = _gathered(gens, around, found, p, support)
    ranges = (in_range(Affine.of(i), n) for i, n in (*found.gens, *found.sums))
    condition = substitute(conj(case, *ranges), at)
    if not targets and not lookups and rest:
        space = seen_from(seen, [*axes, *inner], inside.meaning, [i for i, _ in (*out, *rest)])
        fold = digits(space, out, rest)
        if fold is not None:
            u, r, address, n = fold
            to = {u: address}
            targets = tuple((to.get(i, Affine.of(i)), m.constant) for i, m in out)
            out = (*((i, n if i == u else m) for i, m in out), *(b for b in rest if b[0] == r))
            rest = tuple(b for b in rest if b[0] != r)
            at = {i: a.substitute(to) for i, a in at.items()}
            condition = substitute(condition, to)
    return Domain(layout, out, rest, {**at, **values}, condition, lookups, targets, rows)


def _told(gens: Binders, p: Predicate) -> frozenset[str]:
    """The generators that relations between generators alone determine, and equalities with these."""
    names = {g for g, _ in gens}
    found: set[str] = set()
    for q in conjuncts(p):
        if isinstance(q, Related) and not q.relation.startswith(NOT) and q.names <= names:
            found |= q.names
    waiting = list(_equalities(gens, p))
    for _ in range(len(waiting)):
        for q in waiting:
            left = q.names - found
            if len(left) == 1 and abs(q.difference.coefficient(*left)) == 1:
                found |= left
    return frozenset(found)


def _equalities(gens: Binders, p: Predicate) -> Iterator[Compare]:
    """The conjuncts that are equalities between generators."""
    names = {g for g, _ in gens}
    for q in conjuncts(p):
        if isinstance(q, Compare) and q.op == "=" and q.names <= names:
            yield q


def _gathered(
    gens: Binders, around: Frame, found: Resolved, p: Predicate, support: Predicate
) -> Layout:
    """Over the frame's coordinates; indices that data give are not stored."""
    meaning, names = around.meaning, {g for g, _ in gens}
    used = around.lattice().names.union(*(a.names for a in around.inverse))
    rows = tuple(
        atom for atom, row in found.rows.items() if row in used and isinstance(atom, Related)
    )
    by_data = bool(rows) or any(g in found.values for g in names)
    atoms = (
        q
        for q in conjuncts(p)
        if isinstance(q, Related) and not q.relation.startswith(NOT) and q.names <= names
    )
    return Layout(
        gens,
        tuple(n.constant for _, n in around.coordinates),
        around.inverse,
        tuple(meaning.get(g) for g, _ in gens),
        conj(around.lattice(), *((*atoms, *_equalities(gens, p)) if by_data else ())),
        support,
        rows,
    )


def _scattered(
    gens: Binders,
    around: Frame,
    rows: frozenset[str],
    values: Mapping[str, Affine],
    support: Predicate,
) -> tuple[Layout, tuple[tuple[Affine, int], ...]]:
    """Whole along the indices that data give, which differ from term to term of a sum."""
    kept = [
        (u, n.constant, a)
        for (u, n), a in zip(around.coordinates, around.inverse, strict=True)
        if not a.names & rows
    ]
    by_data = [(g, n.constant) for g, n in gens if g in values]
    targets = (*((Affine.of(u), n) for u, n, _ in kept), *((values[g], n) for g, n in by_data))
    place = {u: Affine.of(f"u{k}") for k, (u, _, _) in enumerate(kept)}
    whole = {g: Affine.of(f"u{len(kept) + k}") for k, (g, _) in enumerate(by_data)}
    meaning = around.meaning
    layout = Layout(
        gens,
        tuple(n for _, n in targets),
        (*(a for _, _, a in kept), *(Affine.of(g) for g, _ in by_data)),
        tuple(whole[g] if g in whole else meaning[g].substitute(place) for g, _ in gens),
        conj(*(q for q in conjuncts(around.lattice()) if not q.names & rows)),
        support,
    )
    return layout, targets


def _support(gens: Binders, sums: Binders, p: Predicate) -> Predicate:
    """A condition on the generators outside which `Σ sums. [p]·e` is zero."""
    names = [g for g, _ in gens]
    inner = {s for s, _ in sums}
    outside = [q for q in conjuncts(p) if not q.names & inner]
    if sums:
        affine = affine_part(conj(*(q for q in conjuncts(p) if not q.relations)), [*names, *inner])
        left = simplify(exists_all(sums, affine), gens)
        outside += [q for q in conjuncts(left) if not isinstance(q, Exists) and q not in outside]
    return simplify(conj(*outside), gens)


def axes_of(values: Sequence[Affine], lookups: Sequence[Lookup]) -> frozenset[str]:
    """The axes that expressions run over, through the places of the lookups that they use."""
    by_name = {x.name: x for x in lookups}
    names: set[str] = set().union(*(a.names for a in values)) if values else set()
    while looked := names & by_name.keys():
        for name in looked:
            names.discard(name)
            names |= set().union(*(a.names for a in by_name[name].places))
    return frozenset(names)
