"""Float64 in, float64 out, whatever JAX's default is."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax._src.core import trace_state_clean  # in no public module of newer JAX

from ..language.types import Array, ParameterType, Product, Real


def keeping_float64(double: bool) -> AbstractContextManager[Any]:
    """Return the context in which JAX is to trace, compile and run a call: with 64-bit types if it is `double`.

    Inside `jax.jit` and the like JAX's own configuration counts.
    """
    if not double or jax.config.jax_enable_x64 or not trace_state_clean():
        return nullcontext()
    if hasattr(jax, "enable_x64"):  # newer JAX
        return jax.enable_x64(True)  # type: ignore[no-any-return]
    from jax.experimental import enable_x64

    return enable_x64()  # type: ignore[no-any-return]


def is_double(kinds: Sequence[tuple[str, ParameterType]], arguments: Sequence[Any]) -> bool:
    """Return whether a real argument is an array of float64, or none says what its type is, as Python's numbers are float64."""
    if is_traced(arguments):
        return False
    real = [v for (_, t), v in zip(kinds, arguments, strict=True) if isinstance(t, _REAL)]
    given = [leaf.dtype for leaf in _arrays_and_numbers(real) if hasattr(leaf, "dtype")]
    floating = [dtype for dtype in given if jnp.issubdtype(dtype, jnp.floating)]
    return not floating or np.dtype(np.float64) in [d.newbyteorder("=") for d in floating]


def is_traced(values: Sequence[Any]) -> bool:
    """Return whether JAX's tracers are among these values."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in _arrays_and_numbers(values))


def _arrays_and_numbers(values: Sequence[Any]) -> list[Any]:
    """Return the arrays and numbers in nested values; a list of numbers is one, of which nothing says the dtype."""
    found: list[Any] = jax.tree_util.tree_leaves(
        tuple(values), is_leaf=lambda x: isinstance(x, list)
    )
    return found


_REAL = Real | Array | Product
