"""Applies each condition once, and drops conditions that make no difference to any reader.

`Σ i<j. f(x[i], x[j])` has `[i<j]·x[i]` and `[i<j]·x[j]` in Tensor SSA, where every variable has a predicate of its own. XLA for
CPUs writes each of them to memory, as large as all pairs; without the conditions it reads `x` instead. So a condition that
several factors of a product have becomes the product's, and what only readers with a condition see has it no more. Conditions
of functions stay: JAX's derivative of a `1/0` that is thrown away afterwards is no number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from ..language.affine import Affine
from ..language.predicates import Predicate, conj, conjuncts, substitute
from .ir import Access, Accumulate, Action, Apply, Contract, Entrywise, Step

Conditions = tuple[Predicate, ...]  # all of which hold


def simplify_conditions(steps: Sequence[Step], whole: AbstractSet[str]) -> list[Step]:
    """Return steps that make the same arrays at the entries that are read, with each condition applied once; the arrays in
    `whole` are equal at all entries.
    """
    filled: dict[str, Conditions] = {}
    return _drop_implied_conditions(_move_to_products(steps, filled), filled, whole)


def _move_to_products(steps: Sequence[Step], filled: dict[str, Conditions]) -> list[Step]:
    """Return steps in which conditions of factors are conditions of the product.

    If only some factors have a condition, zero times NaN would be NaN; if all have it, this may free one of them. Notes in
    `filled` where arrays may be nonzero.
    """
    linear, found = set[str](), list[Step]()
    for step in steps:
        action = step.action
        if isinstance(action, Contract) and _is_product(action):
            each = [(r.array, _condition_of_read(r, filled)) for r in action.reads]
            several = Counter(q for _, known in each for q in known)
            rest = len(each) if _is_entrywise(action) else 0
            asked = [q for x, known in each for q in known if several[q] < rest or x in linear]
            action = replace(action, mask=conj(action.mask, *dict.fromkeys(asked)))
        if isinstance(action, Contract | Accumulate):
            linear.add(step.name)
        filled[step.name] = _nonzero_condition(action, filled)
        found.append(replace(step, action=action))
    return found


def _is_product(action: Contract) -> bool:
    """Whether several factors are multiplied, and not as matrices."""
    if action.scatter_to or action.lookups or len(action.reads) < 2:
        return False
    return not action.sums or _is_entrywise(action)


def _is_entrywise(action: Contract) -> bool:
    """Whether each factor is read along all axes."""
    return all({i for a in r.indices for i in a.names} == {*action.extents} for r in action.reads)


def _nonzero_condition(action: Action, filled: Mapping[str, Conditions]) -> Conditions:
    """Return where an array may be nonzero, as far as conditions say."""
    match action:
        case Contract() if not action.scatter_to:
            known = [q for r in action.reads for q in _condition_of_read(r, filled)]
            return _as_entry_conditions((*conjuncts(action.mask), *known), action)
        case Accumulate() if action.addends:
            first, *rest = [
                (*conjuncts(m.mask), *_condition_of_read(m.read, filled)) for m in action.addends
            ]
            return _as_entry_conditions(
                [q for q in first if all(q in others for others in rest)], action
            )
        case Apply():
            return _as_entry_conditions(conjuncts(action.mask), action)
    return ()


def _as_entry_conditions(conditions: Iterable[Predicate], action: Entrywise) -> Conditions:
    """Return the conditions on a result's axes only, as conditions on indices of its entries."""
    at = {axis: Affine.of(_entry_index(d)) for d, axis in enumerate(action.axes)}
    kept = [q for q in conditions if q.names <= at.keys() and not q.relations]
    return tuple(dict.fromkeys(substitute(q, at) for q in kept))


def _condition_of_read(read: Access, filled: Mapping[str, Conditions]) -> Conditions:
    """Return where a read may be nonzero, as conditions on the reader's indices."""
    return tuple(_condition_at(read, q) for q in filled.get(read.array, ()))


def _condition_at(read: Access, q: Predicate) -> Predicate:
    """Return a condition on an array's entries for the indices of a read."""
    return substitute(q, {_entry_index(d): a for d, a in enumerate(read.indices)})


def _entry_index(dimension: int) -> str:
    """Return the name of the index of an array's entries along a dimension."""
    return f"place{dimension}"


def _drop_implied_conditions(
    steps: Sequence[Step], filled: Mapping[str, Conditions], whole: AbstractSet[str]
) -> list[Step]:
    """Return the steps without conditions that all of their readers apply, too."""
    unseen: dict[str, Conditions] = {}  # conditions on places where alone entries are seen
    found = list[Step]()
    for step in reversed(steps):
        own = () if step.name in whole else unseen.get(step.name, ())
        action, seen = step.action, Conditions()
        if isinstance(action, Entrywise):
            here = action.entry_of(step.name)
            seen = tuple(_condition_at(here, q) for q in own)
            action = _drop_conditions(action, seen)
        for read, asked in _conditions_of_reads(action):
            known = {*asked, *seen}
            before = unseen.get(read.array, filled.get(read.array, ()))
            unseen[read.array] = tuple(q for q in before if _condition_at(read, q) in known)
        found.append(replace(step, action=action))
    return found[::-1]


def _drop_conditions(action: Action, seen: Conditions) -> Action:
    """Return an action without the conditions that hold wherever its entries are read."""

    def remaining_condition(p: Predicate) -> Predicate:
        return conj(*(q for q in conjuncts(p) if q not in seen))

    match action:
        case Contract():
            return replace(action, mask=remaining_condition(action.mask))
        case Accumulate():
            return replace(
                action,
                addends=tuple(replace(m, mask=remaining_condition(m.mask)) for m in action.addends),
            )
    return action


def _conditions_of_reads(action: Action) -> list[tuple[Access, Conditions]]:
    """Return what is read, with the conditions under which it is."""
    match action:
        case Contract():
            return [(r, conjuncts(action.mask)) for r in action.reads]
        case Accumulate():
            return [(r, conjuncts(m.mask)) for m in action.addends for r in m.accesses]
        case Apply():
            own = conjuncts(action.mask)
            return [(r, (*own, *conjuncts(m.mask))) for m in action.addends for r in m.accesses]
    return [(r, ()) for r in action.accesses]
