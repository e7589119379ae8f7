"""Loops of linear iterations (`lowering/linear`), which are composed pairwise."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..lowering.ir import Scan
from ..lowering.linear import Form

Turn = Callable[..., tuple[Mapping[str, Any], Any]]


def run_linear_loop(
    action: Scan, starts: Mapping[str, Any], rows: Mapping[str, Any], turn: Turn
) -> tuple[Any, ...]:
    """Return what a loop of linear iterations carries, by place: a history if one is kept, else the last value. `rows` are in
    the order of iterations.
    """
    numbers = jnp.arange(action.count, dtype=jnp.int32)
    histories: dict[str, Any] = {}
    for place, form in action.solution:
        own = f"s{place}"
        before = {p: x[:-1] for p, x in histories.items()}

        def after(state: Any, number: Any, row: Any, known: Any, own: str = own) -> Any:
            carried = {p: jnp.zeros_like(x) for p, x in starts.items()} | known | {own: state}
            return turn(carried, (number, row))[0][own]

        histories[own] = _compose_history(after, form, starts[own], (numbers, rows, before))
    return tuple(
        histories[p] if place in action.kept else histories[p][-1] for place, p in enumerate(starts)
    )


def _compose_history(
    after: Callable[..., Any], form: Form, start: Any, given: tuple[Any, ...]
) -> Any:
    """Return what is carried before the first iteration and after each, by an associative scan."""
    zero = jnp.zeros_like(start)
    offsets = jax.vmap(lambda *xs: after(zero, *xs))(*given)
    match form:
        case Form.FREE:
            states = offsets
        case Form.SAME:
            states = start + jnp.cumsum(offsets, 0)
        case Form.DIAGONAL:
            one = jnp.ones_like(start)
            factors = jax.vmap(lambda *xs: jax.jvp(lambda s: after(s, *xs), (zero,), (one,))[1])(
                *given
            )
            offsets = offsets.at[0].add(factors[0] * start)
            _, states = lax.associative_scan(_compose_scaled, (factors, offsets))
        case _:
            n, count = start.size, offsets.shape[0]
            matrices = jax.vmap(lambda *xs: jax.jacfwd(after)(zero, *xs))(*given)
            matrices = matrices.reshape(count, n, n)
            offsets = offsets.reshape(count, n)
            offsets = offsets.at[0].add(_multiply_exactly(matrices[0], start.reshape(n)))
            _, states = lax.associative_scan(_compose_affine, (matrices, offsets))
            states = states.reshape(count, *start.shape)
    return jnp.concatenate([start[None], states])


Affine = tuple[Any, Any]


def _compose_scaled(earlier: Affine, later: Affine) -> Affine:
    """Compose two affine maps `a·x + b` with a number a."""
    return later[0] * earlier[0], later[0] * earlier[1] + later[1]


def _compose_affine(earlier: Affine, later: Affine) -> Affine:
    """Compose two affine maps `A·x + b` with matrices A."""
    product = _multiply_exactly(later[0], earlier[0])
    return product, _multiply_exactly(later[0], earlier[1][..., None])[..., 0] + later[1]


def _multiply_exactly(left: Any, right: Any) -> Any:
    """Return a matrix product at the highest precision."""
    return jnp.matmul(left, right, precision=lax.Precision.HIGHEST)
