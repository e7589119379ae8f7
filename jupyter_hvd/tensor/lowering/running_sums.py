"""Loops that only add up: each iteration adds rows to the sum of the one before. What such a loop
carries are running sums, which need no iteration after the other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ..language.predicates import TRUE
from ..language.types import Array, Real, dimensions
from ..ssa.program import flatten_output, pointwise
from .ir import Access, Accumulate, Action, Contract, Fill, Load, extents_of

if TYPE_CHECKING:
    from .plan import Plan

Terms = tuple[str, ...]  # parameters of a loop's body, which are added


def find_running_sums(body: Plan) -> tuple[Terms, ...]:
    """Return, for each value that an iteration leaves, the parameters whose sum it is.

    () if one is something else, or if no order exists in which each needs only the histories of those before it.
    """
    actions = {s.name: s.action for s in body.steps}
    shapes = {
        x: tuple([n.constant for n in dimensions(t)])
        for x, t in body.parameters
        if isinstance(t, Array | Real)
    }
    found = []
    for x in flatten_output(body.output):
        terms = _summed_parameters(x, actions, shapes)
        if terms is None:
            return ()
        found.append(terms)
    own = [terms.count(f"s{place}") for place, terms in enumerate(found)]
    sums = any(own) and max(own) == 1
    return tuple(found) if sums and solving_order(found) is not None else ()


def solving_order(sums: Sequence[Terms]) -> list[int] | None:
    """Return the carried values, each after those whose histories it adds; None if they need one another."""
    order: list[int] = []
    while len(order) < len(sums):
        known = {f"s{place}" for place in order}
        ready = [
            place
            for place, terms in enumerate(sums)
            if place not in order
            if all(x in known or x[0] != "s" or x == f"s{place}" for x in terms)
        ]
        if not ready:
            return None
        order += ready
    return order


def _summed_parameters(
    x: str, actions: Mapping[str, Action], shapes: Mapping[str, tuple[int, ...]]
) -> Terms | None:
    """Return the parameters whose sum an array is; None for another array."""
    match actions[x]:
        case Load(parameter, ()) if parameter[0] in "src":
            return (parameter,)
        case Fill(_, 0):
            return ()
        case Accumulate(out, addends):
            found: list[str] = []
            for a in addends:
                if a.mask != TRUE or a.lookups or a.scale or a.minus:
                    return None
                terms = _read_parameters(a.read, pointwise(out), extents_of(out), actions, shapes)
                if terms is None:
                    return None
                found += terms
            return tuple(found)
        case Contract(out, (), (read,), mask, (), ()) if mask == TRUE:
            return _read_parameters(read, pointwise(out), extents_of(out), actions, shapes)
    return None


def _read_parameters(
    read: Access,
    whole: object,
    shape: tuple[int, ...],
    actions: Mapping[str, Action],
    shapes: Mapping[str, tuple[int, ...]],
) -> Terms | None:
    """Return the parameters whose sum an array is, if it is read entry by entry; else None."""
    if read.indices != whole:
        return None
    terms = _summed_parameters(read.array, actions, shapes)
    return terms if terms is not None and all(shapes[x] == shape for x in terms) else None
