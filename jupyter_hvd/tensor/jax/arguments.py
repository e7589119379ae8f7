"""Arguments as JAX takes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from ..language.pairs import halves
from ..language.types import Integer, Product, TupleSet


def as_array(type_: Any, value: Any) -> Any:
    """An argument of the given type: a set of tuples as 32-bit rows in order, `()` for an integer, a
    tuple of arrays for a tuple.
    """
    if isinstance(type_, Integer):
        return ()
    if isinstance(type_, TupleSet):
        return np.array(sorted(value), dtype=np.int32).reshape(len(value), type_.arity)
    if isinstance(value, tuple):
        return tuple(as_array(None, part) for part in value)
    if isinstance(value, list):
        value = np.array(value)
    if isinstance(value, np.ndarray | np.generic):
        if value.dtype.kind == "O":  # fractions
            return value.astype(float)
        return value.astype(value.dtype.newbyteorder("="), copy=False)
    return value


def nested(type_: Any, value: Any) -> Any:
    """A tuple as the nested pairs of its type."""
    if isinstance(type_, Product):
        first, rest = halves(value)
        return nested(type_.first, first), nested(type_.second, rest)
    return value


def leaves(value: Any) -> list[Any]:
    """The arrays of a tuple, or the one array."""
    return (
        [leaf for part in value for leaf in leaves(part)] if isinstance(value, tuple) else [value]
    )


def kind_of(value: Any) -> Any:
    """What `floating_type` depends on."""
    return getattr(value, "dtype", type(value)), getattr(value, "weak_type", False)


def floating_type(reals: Sequence[Any]) -> np.dtype[Any]:
    """The floating type of real arguments together."""
    together = jnp.result_type(*reals) if reals else jnp.result_type(float)
    return np.dtype(together if jnp.issubdtype(together, jnp.floating) else jnp.result_type(float))
