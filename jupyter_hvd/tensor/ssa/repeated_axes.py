"""Axes along which the entries of a variable repeat are dropped: `⊞i,j. f(x[i])` is `⊞i. f(x[i])`, read at i.

A program computes a variable for all indices around it, as a distance `d(i, j)` within a sum over i, j and k. Without the
axes on which no entry depends, its operations are counted and run once, and its adjoint is summed over them first. A condition on
a dropped axis becomes one of each read, and the variable keeps the condition that there is such an index: so no cost is raised.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from ..language import predicates
from ..language.affine import Affine
from ..language.predicates import TRUE, Predicate, conj, conjuncts, exists_all, in_range
from ..language.terms import Binders, index_names, index_values
from ..polyhedral import sets
from ..polyhedral.entailment import is_entailed
from ..polyhedral.lattice import remaining_condition
from .builder import Builder
from .program import (
    Addition,
    Constant,
    Contraction,
    Factor,
    Map,
    Program,
    Recurrence,
    Rhs,
    flatten_output,
    is_picking,
    is_view,
    operands,
    pointwise,
    rename,
    rename_output,
)


@dataclass(frozen=True)
class _Repeated:
    """A variable as `⊞gens. [mask]·name[kept]`."""

    gens: Binders
    mask: Predicate
    name: str
    kept: tuple[str, ...]

    def read_at(self, indices: Sequence[Affine]) -> tuple[Factor, Predicate]:
        """Return the entry at some indices, as a factor and the condition on it."""
        at = dict(zip(index_names(self.gens), indices, strict=True))
        ranges = [in_range(at[g], n) for g, n in self.gens if g not in self.kept]
        factor = Factor(self.name, tuple([at[g] for g in self.kept]))
        return factor, conj(predicates.substitute(self.mask, at), *ranges)


def drop_repeated_axes(program: Program) -> Program:
    """Return the program without axes along which entries repeat; unchanged if no operation has one."""
    builder = Builder()
    found: dict[str, _Repeated] = {}
    is_changed = False
    for s in program.statements:
        builder.origin = s.origin
        rhs = s.rhs
        if isinstance(rhs, Recurrence):
            body = drop_repeated_axes(rhs.body)
            is_changed |= body is not rhs.body
            rhs = replace(rhs, body=body)
        made = _drop_axes(rhs, found, builder)
        if made is None:
            names = {x: _restore_axes(found[x], builder) for x in operands(rhs)}
            gens = () if isinstance(rhs, Recurrence) else rhs.gens
            name = builder.add_statement(rename(rhs, names))
            made = _Repeated(gens, TRUE, name, index_names(gens))
        elif not is_view(rhs):
            is_changed |= len(made.kept) < len(made.gens)
        found[s.name] = made
    if not is_changed:
        return program
    names = {x: _restore_axes(found[x], builder) for x in flatten_output(program.output)}
    return builder.build_program(rename_output(program.output, names))


def _restore_axes(x: _Repeated, builder: Builder) -> str:
    """Return a variable with all of its axes."""
    return _with_axes(x, x.gens, x.mask, builder)


def _with_axes(x: _Repeated, gens: Binders, mask: Predicate, builder: Builder) -> str:
    """Return a variable over some of its axes, which are all that it depends on, under a condition."""
    if mask == TRUE and x.kept == index_names(gens):
        return x.name
    factor = Factor(x.name, tuple(map(Affine.of, x.kept)))
    return builder.add_statement(Contraction(gens, (), mask, (factor,)))


def _drop_axes(rhs: Rhs, found: dict[str, _Repeated], builder: Builder) -> _Repeated | None:
    """Return a right-hand side without the axes along which it repeats; None if there are none."""
    match rhs:
        case Constant(gens, value):
            kept = [b for b in gens if isinstance(value, Affine) and b.name in value.names]
            return _Repeated(
                gens,
                TRUE,
                builder.add_statement(Constant(tuple(kept), value)),
                index_names(tuple(kept)),
            )
        case Contraction():
            return _drop_from_contraction(rhs, found, builder)
        case Addition():
            return _drop_from_addition(rhs, found, builder)
        case Map() if not is_picking(rhs):
            return _drop_from_map(rhs, found, builder)
    return None


def _drop_from_contraction(
    rhs: Contraction, found: dict[str, _Repeated], builder: Builder
) -> _Repeated:
    """Return a contraction without repeated axes."""
    reads = [found[f.name].read_at(f.indices) for f in rhs.factors]
    factors = tuple([factor for factor, _ in reads])
    binders = (*rhs.gens, *rhs.sums)
    mask = conj(rhs.mask, *(p for _, p in reads))
    if mask != rhs.mask:
        mask = sets.simplify(mask, binders)
    needed = {i for f in factors for a in f.indices for i in a.names}
    mask = _factor_mask(mask, tuple([b for b in rhs.gens if b.name not in needed]), rhs)
    dropped, moved = _split_mask(rhs.gens, needed, [mask], index_names(rhs.sums))
    gens, (rest,) = _keep_axes(rhs.gens, dropped, [mask], rhs.sums)
    name = builder.add_statement(Contraction(gens, rhs.sums, rest, factors))
    if not rhs.sums:
        moved = _condition_for_reads(moved, rest, rhs.gens)
    return _Repeated(rhs.gens, moved, name, index_names(gens))


def _drop_from_addition(
    rhs: Addition, found: dict[str, _Repeated], builder: Builder
) -> _Repeated | None:
    """Return an addition without repeated axes; None if there are none."""
    addends = _rename_axes(found[rhs.left], rhs.gens), _rename_axes(found[rhs.right], rhs.gens)
    masks = [
        sets.simplify(conj(p, x.mask), rhs.gens) if x.mask != TRUE else p
        for p, x in zip((rhs.left_mask, rhs.right_mask), addends, strict=True)
    ]
    needed = {i for x in addends for i in x.kept}
    dropped, moved = _split_mask(rhs.gens, needed, masks, ())
    if not dropped:
        return None
    gens, (p0, p1) = _keep_axes(rhs.gens, dropped, masks)
    x0, x1 = (_with_axes(x, gens, TRUE, builder) for x in addends)
    return _Repeated(
        rhs.gens, moved, builder.add_statement(Addition(gens, p0, x0, p1, x1)), index_names(gens)
    )


def _drop_from_map(rhs: Map, found: dict[str, _Repeated], builder: Builder) -> _Repeated | None:
    """Return an elementwise function without repeated axes; None if there are none."""
    arguments = [_rename_axes(found[x], rhs.gens) for x in rhs.arguments]
    arguments = [
        replace(x, mask=TRUE) if _holds_where(rhs.mask, x.mask, rhs.gens) else x for x in arguments
    ]
    needed = {i for x in arguments for i in (*x.kept, *x.mask.names)}
    dropped, moved = _split_mask(rhs.gens, needed, [rhs.mask], ())
    if not dropped:
        return None
    gens, (mask,) = _keep_axes(rhs.gens, dropped, [rhs.mask])
    names = tuple([_with_axes(x, gens, x.mask, builder) for x in arguments])
    name = builder.add_statement(Map(gens, mask, rhs.function, names))
    return _Repeated(rhs.gens, _condition_for_reads(moved, mask, rhs.gens), name, index_names(gens))


def _holds_where(known: Predicate, p: Predicate, gens: Binders) -> bool:
    """Whether a condition holds at all points where another one does."""
    return is_entailed(known, p, gens) or sets.implies(known, p, gens)


def _rename_axes(x: _Repeated, gens: Binders) -> _Repeated:
    """Return a variable with other names for its axes, of the same sizes."""
    at = index_values(x.gens, pointwise(gens))
    names = dict(zip(index_names(x.gens), index_names(gens), strict=True))
    return _Repeated(
        gens, predicates.substitute(x.mask, at), x.name, tuple([names[g] for g in x.kept])
    )


def _factor_mask(mask: Predicate, idle: Binders, rhs: Contraction) -> Predicate:
    """The mask as a condition on the generators and one without the idle ones, if it is their conjunction.

    `i ≠ j ∧ i ≠ k` is one disjunction of four cases, once isl has restated it.
    """
    names, summed = frozenset(index_names(idle)), frozenset(index_names(rhs.sums))
    mixed = (q for q in conjuncts(mask) if q.names & names and q.names & summed)
    if mask.relations or next(mixed, None) is None:
        return mask
    others = (*(b for b in rhs.gens if b not in idle), *rhs.sums)
    outer = sets.simplify(exists_all(rhs.sums, mask), rhs.gens)
    inner = sets.simplify(exists_all(idle, mask), others)
    both = conj(outer, inner)
    return both if sets.implies(both, mask, (*rhs.gens, *rhs.sums)) else mask


def _split_mask(
    gens: Binders, needed: Collection[str], masks: Sequence[Predicate], summed: Collection[str]
) -> tuple[frozenset[str], Predicate]:
    """Return the axes that may be dropped, and the condition on them that moves to the reads.

    That condition is in all masks, has no relation, and does not concern summed indices.
    """
    parts = [frozenset(conjuncts(p)) for p in masks]
    common = frozenset.intersection(*parts)
    movable = {q for q in common if not q.relations and not q.names & frozenset(summed)}
    fixed = frozenset[str]().union(*(q.names for p in parts for q in p - movable))
    dropped = frozenset(index_names(gens)) - frozenset(needed) - fixed
    return dropped, conj(*(q for q in conjuncts(masks[0]) if q.names & dropped))


def _keep_axes(
    gens: Binders, dropped: Collection[str], masks: Sequence[Predicate], summed: Binders = ()
) -> tuple[Binders, list[Predicate]]:
    """Return the remaining axes, and what the masks say about them."""
    if not dropped:
        return gens, [*masks]
    gone = tuple([b for b in gens if b.name in dropped])
    kept = tuple([b for b in gens if b.name not in dropped])

    def keep(p: Predicate) -> Predicate:
        others = [q for q in conjuncts(p) if not q.names & frozenset(dropped)]
        moved = [q for q in conjuncts(p) if q.names & frozenset(dropped)]
        there_is = sets.simplify(exists_all(gone, conj(*moved)), kept)
        return sets.simplify(conj(*others, there_is), (*kept, *summed))

    return kept, [keep(p) for p in masks]


def _condition_for_reads(moved: Predicate, kept: Predicate, gens: Binders) -> Predicate:
    """Return what a read must still test, of a variable that is zero where a condition fails."""
    if moved == TRUE or moved.relations or kept.relations:
        return moved
    return remaining_condition(moved, gens, kept)
