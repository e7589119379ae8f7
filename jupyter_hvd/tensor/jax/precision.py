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
    """The context in which JAX is to trace, compile and run a call: with 64-bit types where it is
    `double`. Inside `jax.jit` and the like JAX's own configuration counts.
    """
    if not double or jax.config.jax_enable_x64 or not trace_state_clean():
        return nullcontext()
    if hasattr(jax, "enable_x64"):  # newer JAX
        return jax.enable_x64(True)  # type: ignore[no-any-return]
    from jax.experimental import enable_x64

    return enable_x64()  # type: ignore[no-any-return]


def is_double(kinds: Sequence[tuple[str, ParameterType]], arguments: Sequence[Any]) -> bool:
    """Whether a real argument is an array of float64, or none says what its type is, for Python's
    numbers are float64.
    """
    if is_traced(arguments):
        return False
    real = [v for (_, t), v in zip(kinds, arguments, strict=True) if isinstance(t, _REAL)]
    given = [leaf.dtype for leaf in _leaves(real) if hasattr(leaf, "dtype")]
    floating = [dtype for dtype in given if jnp.issubdtype(dtype, jnp.floating)]
    return not floating or np.dtype(np.float64) in [d.newbyteorder("=") for d in floating]


def is_traced(values: Sequence[Any]) -> bool:
    """Whether JAX's stand-ins for arrays are among these."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in _leaves(values))


def _leaves(values: Sequence[Any]) -> list[Any]:
    """The arrays and numbers; a list of numbers is one, of which nothing says the type."""
    found: list[Any] = jax.tree_util.tree_leaves(
        tuple(values), is_leaf=lambda x: isinstance(x, list)
    )
    return found


_REAL = Real | Array | Product
