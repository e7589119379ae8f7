"""Tensor SSA as JAX: a jitted function for the sizes of a call, whose time and memory follow the
supports of the predicates (`kernels`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import jax

from .kernels.compile import Kernel

if TYPE_CHECKING:
    from .tensor_function import Instance


def kernel(instance: Instance, sizes: Mapping[str, int]) -> Kernel:
    """The instance at the given sizes, not yet jitted."""
    return Kernel(instance.ssa, [(x, t) for x, t, _ in instance.parameters], sizes)


def compiled(instance: Instance, sizes: Mapping[str, int]) -> Callable[..., Any]:
    """A jitted function of the instance's parameters, at the given sizes; it returns nested
    pairs of arrays.
    """
    made = kernel(instance, sizes)
    jitted = jax.jit(made.run)

    def call(*arguments: Any) -> Any:
        return jitted(*made.arrays(arguments))

    return call
