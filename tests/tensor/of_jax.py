"""What `jax.grad` says of a plain function: what this project's gradients are compared with."""

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp

#: Operations from which on XLA takes longer over the whole than over each kind of them.
LONG = 400


def gradients(
    function: Callable[..., Any], places: Sequence[int], arguments: Sequence[Any]
) -> tuple[Any, ...]:
    """By some arguments, at these: arrays, numbers, or trees of them.

    Compiled as one. Called by itself, JAX compiles each of its operations alone, which takes several times as long;
    it is called so where the function looks at a number, and where a loop makes it long.
    """

    def at(*chosen: Any) -> tuple[Any, ...]:
        given = list(arguments)
        for place, value in zip(places, chosen, strict=True):
            given[place] = value
        return jax.grad(function, tuple(places))(*given)

    chosen = [jax.tree_util.tree_map(jnp.asarray, arguments[place]) for place in places]
    try:
        traced = jax.jit(at).trace(*chosen)
    except (TypeError, IndexError):
        return at(*chosen)
    short = len(traced.jaxpr.eqns) < LONG
    return traced.lower().compile()(*chosen) if short else at(*chosen)
