"""`∃` over relations: dropped where the rest says it, else an array of its own.

The adjoint masks what it adds up: `[∃ e. src(e, i)]·Y[i]`. Where Y is `Σe. [src(e, i)]·…`, Y is zero
outside anyway.
"""

from __future__ import annotations

from ..affine import Affine
from ..predicates import And, Exists, Or, Predicate, Related, conj, conjuncts, disj, substitute
from .spaces import implied


def canonical(p: Predicate, depth: int = 0) -> Predicate:
    """Bound indices named by their depth, parts in an order of their own: equal up to that is
    equal.
    """
    match p:
        case Exists(index, size, body):
            name = f"∃{depth}"
            return Exists(
                name, size, canonical(substitute(body, {index: Affine.of(name)}), depth + 1)
            )
        case And(parts):
            return conj(*(canonical(part, depth) for part in parts))
        case Or(parts):
            return disj(*(canonical(part, depth) for part in parts))
    return p


def trimmed(p: Predicate, known: Predicate) -> Predicate:
    """`p` without the disjunctions and quantified conjuncts that `known`, or another conjunct,
    implies. Plain relations stay: they say over which points a statement runs.
    """
    parts = list(conjuncts(p))
    facts = canonical(known)
    for q in list(parts):
        if not q.relations or isinstance(q, Related):
            continue
        others = conj(*(r for r in parts if r is not q))
        if says(facts, q) or says(others, q):
            parts.remove(q)
    return conj(*parts)


def says(known: Predicate, p: Predicate) -> bool:
    """Whether `known` implies `p` by its form: a case of it, or an instance of its quantifier."""
    if implied(canonical(p), known):
        return True
    match p:
        case Or(parts):
            return any(says(known, part) for part in parts)
        case And(parts):
            return all(says(known, part) for part in parts)
        case Exists(index, _, body):
            return any(
                value is not None and says(known, substitute(body, {index: value}))
                for atom in conjuncts(body)
                if isinstance(atom, Related)
                for fact in conjuncts(known)
                if isinstance(fact, Related) and fact.relation == atom.relation
                for value in [_instance(atom, fact, index)]
            )
    return False


def _instance(atom: Related, fact: Related, index: str) -> Affine | None:
    """The value of the index at which the atom is the fact."""
    for a, b in zip(atom.arguments, fact.arguments, strict=True):
        if a.name == index:
            found = substitute(atom, {index: b})
            return b if found == fact else None
    return None
