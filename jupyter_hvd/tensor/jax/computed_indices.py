"""Integers that a program computes, as index arrays (`lowering/computed_indices`): gathers and scatters."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp

from ..language.affine import Affine
from ..language.predicates import Predicate, Related, conj
from ..language.terms import (
    Call,
    Const,
    Gen,
    Guard,
    Iterate,
    Mul,
    Sum,
    Term,
    Var,
    rebuild,
    strip_entries,
)
from ..lowering.computed_indices import index_array_name


def round_to_indices(array: Any, below: int) -> Any:
    """Return floating-point whole numbers as int32 in `range(below)`; they become integers before they are clipped, as a NaN
    would be any index.
    """
    return jnp.clip(array.astype(jnp.int32), 0, below - 1)


def introduce_index_arrays(e: Term, sizes: Mapping[str, int]) -> tuple[Term, dict[str, int]]:
    """Rewrite `kept(picks(p[a], j), x)` as `[ρ(a, j)]·x`; return the program, and the exclusive bound of the numbers in each
    variable p.
    """
    below: dict[str, int] = {}

    def rewritten(e: Term, extents: Mapping[str, Affine]) -> Term:
        inner = {**extents, e.index: e.size} if isinstance(e, Gen | Sum | Iterate) else extents
        e = rebuild(e, lambda child: rewritten(child, inner))
        if not isinstance(e, Call) or e.function.name != "kept":
            return e
        test, x = e.arguments
        p = _picking(test, extents)
        return e if p is None else Guard(p, x)

    def _picking(test: Term, extents: Mapping[str, Affine]) -> Predicate | None:
        match test:
            case Mul(left, right):
                p, q = _picking(left, extents), _picking(right, extents)
                return None if p is None or q is None else conj(p, q)
            case Call(function, (place, Const(Affine() as j))) if function.name == "picks":
                array, at = strip_entries(place)
                if not isinstance(array, Var) or j.name is None:
                    return None
                if j.name not in extents or any(j.name in a.names for a in at):
                    return None
                n = extents[j.name].evaluate(sizes)
                below[array.name] = min(n, below.get(array.name, n))
                return Related(index_array_name(array.name), (*at, j))
        return None

    return rewritten(e, {}), below
