"""Index spaces at concrete sizes: the coordinates in which a predicate's points fill a box.

A predicate's equalities leave a lattice of integer points, its inequalities a region of it. A
`Frame` numbers the lattice by integer coordinates, `variable = M·coordinates + c` with M unimodular
on the lattice (found by elimination and, where no coefficient is ±1, by Knuth's form of Euclid's
algorithm), and encloses the region in a box. Where a difference of coordinates has a smaller range
than either, as in a band `|i-j| ≤ k`, that difference becomes a coordinate.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import prod
from typing import Any, NamedTuple

from ..language.affine import Affine
from ..language.predicates import TRUE, And, Or, Predicate, compare, conj, conjuncts
from ..language.terms import Binder, Binders, index_names
from . import sets

PARTS = 16  # disjoint cases of a predicate that are looked at one by one


@dataclass(frozen=True)
class Frame:
    """Coordinates for a set of index points, and the box of their ranges.

    `forward` gives each variable over the coordinates, `inverse` each coordinate over the variables. A lattice point is in
    the
    set only if its coordinates are in the box `0 ≤ coordinate < extent`.
    """

    coordinates: Binders
    forward: tuple[tuple[str, Affine], ...]
    inverse: tuple[Affine, ...]

    @property
    def volume(self) -> int:
        """The number of points in the box of the coordinates' ranges."""
        return prod(n.constant for _, n in self.coordinates)

    @property
    def index_map(self) -> dict[str, Affine]:
        """Each variable over the coordinates."""
        return dict(self.forward)

    def lattice_condition(self) -> Predicate:
        """Return the condition under which variables have integer coordinates, without that of the box."""
        back = {u: a for (u, _), a in zip(self.coordinates, self.inverse, strict=True)}
        return conj(*(compare("=", v, a.substitute(back)) for v, a in self.forward))


def affine_part(p: Predicate, names: Iterable[str]) -> Predicate:
    """Return the conjuncts over these names only: a superset that isl can represent.

    Conditions on looked-up entries of index arrays (`δ`) are left out.
    """
    known = frozenset(names)
    return conj(*(q for q in conjuncts(p) if q.names <= known))


def superset(binders: Binders, p: Predicate) -> Any:
    """Return the isl set of a predicate's points, with relations and looked-up entries taken as true."""
    return sets.integer_set(binders, affine_part(p, (i for i, _ in binders)))


def make_frame(
    variables: Sequence[str], set_: Any, fixed_count: int = 0, stem: str = "u"
) -> Frame | None:
    """Return the frame of an isl set over `variables`; None if the set is empty.

    Args:
        fixed_count: so many first variables, whose ranges must begin at 0, stay coordinates under their own names.
        stem: names the other coordinates.
    """
    if set_.is_empty():
        return None
    kept = tuple(variables[:fixed_count])
    equalities = _affine_hull(variables, set_)
    forward, inverse = _solve_lattice(variables, equalities, kept, set_)
    names = list(inverse)
    inside = find_preimage(set_, variables, forward, names)
    bounds = {t: _coordinate_range(inside, k) for k, t in enumerate(names)}
    while (found := _skew_coordinates(inside, names, bounds, kept)) is not None:
        t, a, rest = found
        # The coordinate t gives way to a = t + rest, which has fewer values.
        back = {t: Affine.of(t) - rest}
        forward = {v: b.substitute(back) for v, b in forward.items()}
        inverse[t] = a.substitute(inverse)
        inside = find_preimage(set_, variables, forward, names)
        bounds = {t: _coordinate_range(inside, k) for k, t in enumerate(names)}
    renamed: dict[str, Affine] = {}
    coordinates, back_ = [], []
    for t in names:
        low, high = bounds[t] if t not in kept else (0, bounds[t][1])
        name = t if t in kept else f"{stem}{len(renamed) - sum(k in kept for k in renamed)}"
        renamed[t] = Affine.of(name) + low
        coordinates.append(Binder(name, Affine.of(high - low + 1)))
        back_.append(inverse[t] - low)
    return Frame(
        tuple(coordinates),
        tuple((v, forward[v].substitute(renamed)) for v in variables),
        tuple(back_),
    )


def project_set(set_: Any, count: int) -> Any:
    """Project a set to its first variables."""
    return set_.project_out(
        sets.dimension_kinds().set, count, set_.dim(sets.dimension_kinds().set) - count
    )


def _affine_hull(variables: Sequence[str], set_: Any) -> list[Affine]:
    """Return the affine hull as expressions that are zero."""
    found = []
    for constraint in set_.affine_hull().remove_divs().get_constraints():
        if constraint.is_equality():
            found.append(_constraint_expression(constraint, variables))
    return found


def _constraint_expression(constraint: Any, variables: Sequence[str]) -> Affine:
    """Return an isl constraint `a = 0` or `a ≥ 0` as the affine expression `a` over some variables."""
    total = Affine.of(constraint.get_constant_val().to_python())
    for k, v in enumerate(variables):
        total = (
            total
            + Affine.of(v)
            * constraint.get_coefficient_val(sets.dimension_kinds().set, k).to_python()
        )
    return total


def _solve_lattice(
    variables: Sequence[str], equalities: Sequence[Affine], fixed: tuple[str, ...], set_: Any
) -> tuple[dict[str, Affine], dict[str, Affine]]:
    """Parametrize the integer solutions of affine equalities.

    Returns:
        each variable over the parameters, and each parameter over the variables.

    Args:
        fixed: variables that stay parameters.
        set_: the isl set whose ranges decide the order: the variable with the widest range is eliminated first.
    """
    width = dict.fromkeys(variables, 0)
    if len(variables) > 1 and equalities:
        ranges = (_coordinate_range(set_, k) for k in range(len(variables)))
        width = {v: high - low for v, (low, high) in zip(variables, ranges, strict=True)}
    forward = {v: Affine.of(v) for v in variables}
    inverse = {v: Affine.of(v) for v in variables}

    def replace_variable(t: str, value: Affine) -> None:
        for v, a in forward.items():
            forward[v] = a.substitute({t: value})

    fresh = 0
    for equality in equalities:
        e = equality.substitute(forward)
        while free := {t: k for t, k in e.terms if t not in fixed}:
            unit = [t for t, k in free.items() if abs(k) == 1]
            if unit:
                t = max(unit, key=lambda t: (width.get(t, 0), list(inverse).index(t)))
                k = e.coefficient(t)
                replace_variable(t, Affine.of(t) - e * k)
                del inverse[t]
                break
            if len(e.terms) == 1:
                ((t, k),) = e.terms
                replace_variable(t, Affine.of(-e.constant // k))
                del inverse[t]
                break
            if len(free) < len(e.terms):
                break  # Only remainders of kept variables decide: the mask tests them.
            t, k = min(free.items(), key=lambda term: abs(term[1]))
            quotients = Affine.of(0)
            for other, j in e.terms:
                if other != t:
                    quotients = quotients + Affine.of(other) * (j // k)
            fresh += 1
            name = f"τ{fresh}"
            value = Affine.of(name) - quotients
            inverse[name] = inverse[t] + quotients.substitute(inverse)
            replace_variable(t, value)
            e = e.substitute({t: value})
            del inverse[t]
    return forward, inverse


def find_preimage(
    set_: Any, variables: Sequence[str], forward: Mapping[str, Affine], names: Sequence[str]
) -> Any:
    """Return the set over `names` that `forward` maps into a set."""
    from islpy import MultiAff

    return set_.preimage_multi_aff(MultiAff(affine_map(names, [forward[v] for v in variables])))


def affine_map(names: Sequence[str], values: Iterable[Affine]) -> str:
    """Print the map from these names to affine expressions over them, in isl's notation."""
    spelt = {name: f"v{k}" for k, name in enumerate(names)}
    target = ",".join(sets.affine_text(a, spelt) for a in values)
    return f"{{ [{','.join(spelt.values())}] -> [{target}] }}"


def _coordinate_range(set_: Any, k: int) -> tuple[int, int]:
    """Return the least and the largest value of coordinate k in an isl set."""
    return int(set_.dim_min_val(k).to_python()), int(set_.dim_max_val(k).to_python())


def _skew_coordinates(
    inside: Any,
    names: Sequence[str],
    bounds: Mapping[str, tuple[int, int]],
    fixed: tuple[str, ...],
) -> tuple[str, Affine, Affine] | None:
    """Find a coordinate t and a combination `t + rest` that has at most half as many values."""
    best, found = 0.5, None
    for t, rest in dict.fromkeys(_coordinate_combinations(inside, names, fixed)):
        low, high = bounds[t]
        position = list(names).index(t)
        moved = {name: Affine.of(name) for name in names} | {t: Affine.of(t) - rest}
        first, last = _coordinate_range(find_preimage(inside, names, moved, names), position)
        ratio = (last - first + 1) / (high - low + 1)
        if ratio <= best:
            best, found = ratio - 1e-9, (t, Affine.of(t) + rest, rest)
    return found


def _coordinate_combinations(
    inside: Any, names: Sequence[str], fixed: tuple[str, ...]
) -> Iterator[tuple[str, Affine]]:
    """Yield coordinates that can be replaced by a sum of several, with the rest of the sum."""
    for a in _constraint_expressions(inside, names):
        for t, k in a.terms if len(a.terms) > 1 else ():
            if abs(k) == 1 and t not in fixed:
                yield t, (a - a.constant) * k - Affine.of(t)


def _constraint_expressions(inside: Any, names: Sequence[str]) -> Iterator[Affine]:
    """Yield the expressions that are nonnegative or zero in some part of a set, without those with remainders."""
    for basic in inside.get_basic_sets():
        if not basic.dim(sets.dimension_kinds().div):
            for constraint in basic.get_constraints():
                yield _constraint_expression(constraint, names)


class Digits(NamedTuple):
    """A coordinate u split into digits: u = `k·r + e + c` with `0 ≤ e < k`.

    `address` is `k·r + u + c`, where u now stands for e, which has `values` values.
    """

    u: str
    r: str
    address: Affine
    values: Affine


def find_digits(inside: Any, fixed: Binders, rest: Binders) -> list[Digits]:
    """Find kept coordinates u with another coordinate r that is their leading digit at every point.

    (r, e) must run over no more points than u does.
    """
    names, found = [*index_names((*fixed, *rest))], list[Digits]()
    pairs = [(u, r) for (u, _), (r, _) in product(fixed, rest)]
    likely = dict.fromkeys(
        (u, r, -a.coefficient(r) * a.coefficient(u))
        for a in _constraint_expressions(inside, names)
        for u, r in pairs
        if abs(a.coefficient(u)) == 1
    )
    for u, r, k in likely:
        if k < 2 or any({u, r} & {one.u, one.r} for one in found):
            continue
        moved = {i: Affine.of(i) for i in names}
        moved[u] = Affine.of(u) + Affine.of(r) * k
        low, high = _coordinate_range(find_preimage(inside, names, moved, names), names.index(u))
        if high - low < k:
            found.append(Digits(u, r, moved[u] + low, Affine.of(high - low + 1)))
    return found


@lru_cache(maxsize=4096)
def disjoint_cases(binders: Binders, p: Predicate) -> tuple[Predicate, ...]:
    """Split `p` into disjoint cases, if their boxes together are at most half of the box around all.

    `[i=j ∨ i=j+1]` becomes two diagonals, for example.
    """
    variables = [*index_names(binders)]
    known = affine_part(p, variables)
    whole = sets.integer_set(binders, known).coalesce()
    if whole.is_empty():
        return ()
    basics = whole.make_disjoint().coalesce().get_basic_sets()
    if len(basics) == 1 or len(basics) > PARTS:
        return (p,)
    together = make_frame(variables, whole)
    parts = [make_frame(variables, basic.to_set()) for basic in basics]
    volume = sum(part.volume for part in parts if part is not None)
    if together is None or 2 * volume > together.volume:
        return (p,)
    spelt = sets.isl_names(binders, TRUE)
    split = [sets.set_to_predicate(basic, spelt) for basic in basics]
    if any(part is None for part in split):
        return (p,)
    rest = conj(*(q for q in conjuncts(p) if q not in conjuncts(known)))
    relational = known if known.relations else TRUE
    return tuple(conj(part, rest, relational) for part in split if part is not None)


def is_implied(p: Predicate, context: Predicate) -> bool:
    """Whether `context` implies `p`, decided by syntax only."""
    if p in (context, TRUE):
        return True
    if isinstance(p, And):
        return all(is_implied(part, context) for part in p.parts)
    if isinstance(context, Or) and context.parts:
        return all(is_implied(p, part) for part in context.parts)
    if isinstance(context, And) and any(is_implied(p, part) for part in context.parts):
        return True
    return isinstance(p, Or) and any(is_implied(part, context) for part in p.parts)


def remaining_condition(p: Predicate, binders: Binders, assumed: Predicate) -> Predicate:
    """Return the part of `p` that must still be tested inside the binders' box where `assumed` holds."""
    variables = [*index_names(binders)]
    plain = conj(*(q for q in conjuncts(p) if not q.relations and q.names <= set(variables)))
    others = [q for q in conjuncts(p) if q.relations or not q.names <= set(variables)]
    others = [_shorter_form(q, binders) for q in others]
    assumed = sets.simplify(assumed, binders) if assumed.names <= set(variables) else assumed
    others = [q for q in others if not is_implied(q, assumed)]
    if plain != TRUE:
        context = conj(
            *(q for q in conjuncts(assumed) if not q.relations and q.names <= set(variables))
        )
        around = sets.integer_set(binders, context)
        inside = sets.integer_set(binders, plain)
        if around.is_subset(inside):
            plain = TRUE
        else:
            left = sets.set_to_predicate(inside.gist(around), sets.isl_names(binders, plain))
            plain = plain if left is None else left
    return conj(plain, *others)


def _shorter_form(p: Predicate, binders: Binders) -> Predicate:
    """Return an affine predicate over these binders simplified; others unchanged."""
    return sets.simplify(p, binders) if p.names <= {*index_names(binders)} else p
