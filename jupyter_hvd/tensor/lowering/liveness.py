"""Restricts statements to the entries that are read.

The adjoint of `y = A·w` by A is the outer product `dy·wᵀ`. Where A is three diagonals, the gradient
reads three diagonals of it, which no mask of the SSA says, for A's support is a disjunction. Two
passes over the affine sets find out: forwards, where a variable may be other than zero; backwards,
where it is read at a point at which the other factor may be other than zero. What is not read is
masked away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..language.affine import Affine
from ..language.predicates import TRUE, And, Compare, Or, Predicate, conj
from ..language.terms import Binders, index_names
from ..polyhedral import sets
from ..polyhedral.lattice import affine_map, find_preimage, make_frame, project_set, superset
from ..ssa.program import (
    Addition,
    Application,
    Contraction,
    Factor,
    Map,
    Part,
    Program,
    Recurrence,
    Rhs,
    flatten_output,
    operands,
    pointwise,
    with_masks,
)

PARTS = 24  # basic sets beyond which a set is taken for everything


def restrict_to_live(program: Program) -> Program:
    """Return the program with its statements masked to the entries that are read, where these are at most half of them."""
    if not any(_is_selective(s.rhs) for s in program.statements):
        return program
    filled = _nonzero_sets(program)
    wanted: dict[str, Any] = {}
    gens = {s.name: s.rhs.gens for s in program.statements}
    for name in flatten_output(program.output):
        wanted[name] = superset(gens[name], TRUE)
    kept = []
    for statement in reversed(program.statements):
        rhs, want = statement.rhs, wanted.get(statement.name)
        if want is None:
            continue
        if isinstance(rhs, Recurrence | Part | Application):
            wanted |= {x: superset(gens[x], TRUE) for x in operands(rhs)}
            kept.append(statement)
            continue
        narrowed = _mask_to_wanted(rhs, want)
        for name, binders, space, indices in _read_points(narrowed, filled, want):
            seen = _image_of_points(space, binders, indices, gens[name])
            before = wanted.get(name)
            together = seen if before is None else before.union(seen).coalesce()
            many = len(together.get_basic_sets()) > PARTS
            wanted[name] = superset(gens[name], TRUE) if many else together
        kept.append(replace(statement, rhs=narrowed))
    return Program(tuple(reversed(kept)), program.output)


def _is_selective(rhs: Rhs) -> bool:
    """Whether a statement may read, or leave, much less than a box: a diagonal or a band."""
    masks: tuple[Predicate, ...] = ()
    match rhs:
        case Contraction():
            masks = (rhs.mask,)
            for factor in rhs.factors:
                used = [i for a in factor.indices for i in a.names]
                if len(set(used)) < len(used):
                    return True
        case Map():
            masks = (rhs.mask,)
        case Addition():
            masks = (rhs.left_mask, rhs.right_mask)
    return any(
        isinstance(q, Compare) and q.op == "=" and len(q.names) > 1
        for p in masks
        for q in _comparisons_in(p)
    )


def _comparisons_in(p: Predicate) -> list[Predicate]:
    """Return the atomic parts of a predicate."""
    if isinstance(p, And | Or):
        return [q for part in p.parts for q in _comparisons_in(part)]
    return [p]


def _nonzero_sets(program: Program) -> dict[str, Any]:
    """Return, for each variable, a set outside of which it is zero."""
    filled: dict[str, Any] = {}
    for statement in program.statements:
        rhs = statement.rhs
        box = superset(rhs.gens, TRUE)
        match rhs:
            case Addition():
                left = filled[rhs.left].intersect(superset(rhs.gens, rhs.left_mask))
                right = filled[rhs.right].intersect(superset(rhs.gens, rhs.right_mask))
                found = left.union(right).coalesce()
            case Map():
                found = superset(rhs.gens, rhs.mask)
            case Contraction():
                space = _nonzero_points(rhs, filled)
                found = project_set(space, len(rhs.gens)).coalesce()
            case _:
                found = box
        filled[statement.name] = box if len(found.get_basic_sets()) > PARTS else found
    return filled


def _nonzero_points(rhs: Contraction, filled: dict[str, Any]) -> Any:
    """Return the points at which every factor of a contraction may be nonzero."""
    binders = (*rhs.gens, *rhs.sums)
    space = superset(binders, rhs.mask)
    for factor in rhs.factors:
        space = space.intersect(_preimage_under(filled[factor.name], factor, binders))
    return space


def _preimage_under(set_: Any, factor: Factor, binders: Binders) -> Any:
    """Return the points at which a factor reads an entry of a set."""
    names = [*index_names(binders)]
    places = [f"place{k}" for k in range(len(factor.indices))]
    return find_preimage(set_, places, dict(zip(places, factor.indices, strict=True)), names)


def _read_points(
    rhs: Rhs, filled: dict[str, Any], want: Any
) -> list[tuple[str, Binders, Any, Sequence[Affine]]]:
    """Return which variables a statement reads: name, binders, the set of points, and the indices there."""
    here = pointwise(rhs.gens)
    match rhs:
        case Addition():
            parts = ((rhs.left, rhs.left_mask), (rhs.right, rhs.right_mask))
            return [(x, rhs.gens, superset(rhs.gens, p).intersect(want), here) for x, p in parts]
        case Map():
            space = superset(rhs.gens, rhs.mask).intersect(want)
            return [(x, rhs.gens, space, here) for x in rhs.arguments]
        case Contraction():
            binders = (*rhs.gens, *rhs.sums)
            at = {f"place{k}": a for k, a in enumerate(here)}
            wanted = find_preimage(want, list(at), at, [*index_names(binders)])
            space = _nonzero_points(rhs, filled).intersect(wanted)
            return [(f.name, binders, space, f.indices) for f in rhs.factors]
    return []


def _image_of_points(space: Any, binders: Binders, indices: Sequence[Affine], gens: Binders) -> Any:
    """Return the entries that are read at the points of a set."""
    import islpy

    moved = space.apply(islpy.Map(affine_map(index_names(binders), indices)))
    return superset(gens, TRUE).intersect(moved).coalesce()  # in this order: it has the names


def _mask_to_wanted(rhs: Rhs, want: Any) -> Rhs:
    """Return the statement masked to the wanted entries, if these are at most half of them."""
    if not isinstance(rhs, Addition | Map | Contraction) or len(rhs.gens) < 2:
        return rhs
    names = [*index_names(rhs.gens)]
    if isinstance(rhs, Contraction):
        made = project_set(superset((*rhs.gens, *rhs.sums), rhs.mask), len(names))
    elif isinstance(rhs, Map):
        made = superset(rhs.gens, rhs.mask)
    else:
        made = superset(rhs.gens, rhs.left_mask).union(superset(rhs.gens, rhs.right_mask))
    if made.is_subset(want):
        return rhs
    both = made.intersect(want).coalesce()
    if 2 * _stored_volume(names, both) > _stored_volume(names, made):
        return rhs
    box = superset(rhs.gens, TRUE)
    p = sets.set_to_predicate(box.intersect(want).gist(box), sets.isl_names(rhs.gens, TRUE))
    return rhs if p is None else with_masks(rhs, lambda q, _: conj(q, p))


def _stored_volume(names: Sequence[str], set_: Any) -> int:
    """Return how many entries are stored for a set: those of its frame, or of the frames of its disjoint parts if these are
    fewer.
    """
    whole = make_frame(names, set_)
    if whole is None:
        return 0
    parts = [make_frame(names, basic.to_set()) for basic in set_.make_disjoint().get_basic_sets()]
    return min(whole.volume, sum(part.volume for part in parts if part is not None))
