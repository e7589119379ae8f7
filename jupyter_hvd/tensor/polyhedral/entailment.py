"""Drops `∃` over relations that other conditions imply; the others become arrays.

The adjoint masks what it adds up: `[∃ e. src(e, i)]·Y[i]`. Where Y is `Σe. [src(e, i)]·…`, Y is zero
outside anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..language.affine import Affine
from ..language.predicates import (
    TRUE,
    And,
    Exists,
    Or,
    Predicate,
    Related,
    conj,
    conjuncts,
    disj,
    in_range,
    substitute,
)
from ..language.terms import Binder, Binders, index_names
from .lattice import is_implied, remaining_condition


def rename_by_depth(p: Predicate, depth: int = 0) -> Predicate:
    """Rename bound indices by their depth, and sort parts, so that predicates equal up to these are equal."""
    match p:
        case Exists(index, size, body):
            name = f"∃{depth}"
            return Exists(
                name, size, rename_by_depth(substitute(body, {index: Affine.of(name)}), depth + 1)
            )
        case And(parts):
            return conj(*(rename_by_depth(part, depth) for part in parts))
        case Or(parts):
            return disj(*(rename_by_depth(part, depth) for part in parts))
    return p


def drop_implied(p: Predicate, context: Predicate, binders: Binders) -> Predicate:
    """Drop the disjunctions and quantified conjuncts of `p` that `context`, or another conjunct, implies.

    Plain relations stay, since they determine the points over which a statement runs.
    """
    parts = list(conjuncts(p))
    facts = rename_by_depth(context)
    witnesses, shown = open_quantifiers(context)
    more = (*binders, *witnesses)
    for q in list(parts):
        if not q.relations or isinstance(q, Related):
            continue
        others = conj(*(r for r in parts if r is not q))
        if (
            is_entailed(facts, q, binders)
            or is_entailed(others, q, binders)
            or (witnesses and is_entailed(shown, q, more))
        ):
            parts.remove(q)
    return conj(*parts)


def open_quantifiers(p: Predicate, stem: str = "ε") -> tuple[Binders, Predicate]:
    """Remove the quantifiers of the conjuncts of `p`, and rename the indices that they bind to unused names.

    Whatever the result implies, `p` implies too, for any values of these indices.
    """
    bound: list[Binder] = []
    parts: list[Predicate] = []
    waiting = list(conjuncts(p))
    while waiting:
        q = waiting.pop(0)
        if isinstance(q, Exists):
            binder = Binder(f"{stem}{len(bound)}", q.size)
            bound.append(binder)
            waiting += conjuncts(substitute(q.body, {q.index: Affine.of(binder.name)}))
        else:
            parts.append(q)
    return tuple(bound), conj(*parts)


def is_entailed(context: Predicate, p: Predicate, binders: Binders) -> bool:
    """Whether `context` implies `p` by its form: a case of it, or an instance of its quantifiers."""
    if is_implied(rename_by_depth(p), context):
        return True
    match p:
        case Or(parts):
            return any(is_entailed(context, part, binders) for part in parts)
        case And(parts):
            return all(is_entailed(context, part, binders) for part in parts)
        case Exists():
            bound, body = open_quantifiers(p, stem="η")
            atoms = [q for q in conjuncts(body) if isinstance(q, Related)]
            facts = [q for q in conjuncts(context) if isinstance(q, Related)]
            for at in _find_instances(atoms, facts, [*index_names(bound)]):
                there = conj(*(in_range(at[i], n) for i, n in bound), substitute(body, at))
                tests, affine = _split_relations(there)
                if all(is_entailed(context, q, binders) for q in tests):
                    shown = conj(*(q for q in conjuncts(context) if not q.relations))
                    if remaining_condition(conj(*affine), binders, shown) == TRUE:
                        return True
    return False


def _split_relations(p: Predicate) -> tuple[list[Predicate], list[Predicate]]:
    """Return the conjuncts with relations, and those without."""
    parts = list(conjuncts(p))
    return [q for q in parts if q.relations], [q for q in parts if not q.relations]


def open_quantifier(p: Predicate) -> tuple[Binders, Predicate]:
    """Split `∃i. ∃j. body` into the indices, under unused names, and the body."""
    bound: list[Binder] = []
    while isinstance(p, Exists):
        name = f"∃{p.index}{len(bound)}"
        bound.append(Binder(name, p.size))
        p = substitute(p.body, {p.index: Affine.of(name)})
    return tuple(bound), p


def _find_instances(
    atoms: Sequence[Related], facts: Sequence[Related], bound: Sequence[str]
) -> Iterator[dict[str, Affine]]:
    """Yield the values of bound indices at which every atom is one of the facts; each index must get a value."""
    if not bound:
        yield {}
        return
    atom = next((q for q in atoms if not q.names.isdisjoint(bound)), None)
    if atom is None:
        return
    for fact in facts:
        if at := _match_atom(atom, fact, bound):
            rest = [substitute(q, at) for q in atoms if q is not atom]
            left = [i for i in bound if i not in at]
            for more in _find_instances([q for q in rest if isinstance(q, Related)], facts, left):
                yield at | more


def _match_atom(atom: Related, fact: Related, bound: Sequence[str]) -> dict[str, Affine]:
    """Return the values of bound indices at which the atom equals the fact; None where it does not."""
    if (fact.relation, fact.negated) != (atom.relation, atom.negated):
        return {}
    pairs = zip(atom.arguments, fact.arguments, strict=True)
    at = {a.name: b for a, b in pairs if a.name is not None and a.name in bound}
    return at if at and substitute(atom, at) == fact else {}
