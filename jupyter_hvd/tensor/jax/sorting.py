"""Ranks and counts by sorting, as `lowering/ordered` has them; what is no number comes last."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp


def ranks(x: Any, axis: int, descending: bool) -> Any:
    """The place of each entry among those along an axis; of equal ones the first is first."""
    rows = jnp.moveaxis(x, axis, -1)
    rows = jnp.flip(rows, -1) if descending else rows
    order = jnp.argsort(rows, axis=-1, stable=True)
    n = x.shape[axis]
    numbers = jnp.arange(n, dtype=order.dtype)

    def inverse(order: Any) -> Any:
        return jnp.zeros_like(order).at[order].set(numbers, unique_indices=True)

    found = jax.vmap(inverse)(order.reshape(-1, n)).reshape(order.shape)
    found = n - 1 - jnp.flip(found, -1) if descending else found
    return jnp.moveaxis(found, -1, axis).astype(x.dtype)


def counted(among: Any, x: Any, ties: bool) -> Any:
    """How many entries of a list precede each of x, or with `ties` do not come after it."""
    side = "right" if ties else "left"
    return jnp.searchsorted(jnp.sort(among), x, side=side).astype(x.dtype)
