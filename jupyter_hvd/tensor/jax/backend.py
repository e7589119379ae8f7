"""Tensor SSA as JAX: a jitted function for the sizes of a call, whose time and memory follow the
supports of the predicates.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from ..language.errors import TensorError
from ..lowering.plan import Counts, Plan
from ..lowering.sharding import divided
from . import shards
from .execute import execute
from .kernel import Kernel
from .memory import may_exceed, require_memory
from .precision import keeping_float64

if TYPE_CHECKING:
    from ..instance import Instance


def kernel(instance: Instance, sizes: Mapping[str, int]) -> Kernel:
    """The instance at the given sizes, not yet jitted."""
    return Kernel(instance.ssa, [(x, t) for x, t, _ in instance.parameters], sizes)


def planned(instance: Instance, sizes: Mapping[str, int], arguments: Sequence[Any]) -> Plan:
    """How the instance is computed for these arguments."""
    made = kernel(instance, sizes)
    with keeping_float64(made.kinds, arguments):
        return made.plan(made.operands(arguments))


def compiled(instance: Instance, sizes: Mapping[str, int]) -> Callable[..., Any]:
    """A jitted function of the instance's parameters, at the given sizes; it returns nested
    pairs of arrays. Each call is planned before JAX traces it; TensorError where there is not the
    memory for it.
    """
    made = kernel(instance, sizes)
    jitted: dict[tuple[Counts, np.dtype[Any]], tuple[Plan, Any]] = {}
    analysed: dict[tuple[Counts, np.dtype[Any]], Any] = {}

    def call(*arguments: Any) -> Any:
        arrays = made.operands(arguments)
        key = made.counts(arrays), made.dtype(arrays)
        if key not in jitted:
            jitted[key] = made.compile(*key), _jitted(made.compile(*key))
        plan, run = jitted[key]
        if may_exceed(plan) and not any(map(_is_abstract, jax.tree_util.tree_leaves(arrays))):
            if key not in analysed:  # which `run` does not do again
                analysed[key] = run.lower(*arrays).compile()
            require_memory(analysed[key], plan)
        return run(*arrays)

    return _in_float64(made, call)


def _in_float64(made: Kernel, call: Callable[..., Any]) -> Callable[..., Any]:
    """`call`, which JAX is not to round where its arguments are float64."""

    def precise(*arguments: Any) -> Any:
        with keeping_float64(made.kinds, arguments):
            return call(*arguments)

    return precise


def _jitted(plan: Plan) -> Any:
    def run(*arrays: Any) -> Any:
        return execute(plan, arrays)

    return jax.jit(run)


def _is_abstract(value: Any) -> bool:
    return isinstance(value, jax.core.Tracer)


def sharded(
    instance: Instance, sizes: Mapping[str, int], index: str, devices: int | None
) -> Callable[..., Any]:
    """As `compiled`, the sums over one index of the program divided among the first `devices`
    devices, all by default. Raises TensorError where the index reads no parameter.
    """
    axes = divided(instance.checked.function.body, index)
    if not axes:
        raise TensorError(
            f"no parameter is read at an index `{index}`",
            f"name the index of a sum over the data: `sum(… x[{index}] … for {index} in range(n))`",
        )
    places = [(x, path) for x, path, _ in axes]
    twice = next((x for x, path in places if places.count((x, path)) > 1), None)
    if twice is not None:
        raise TensorError(
            f"`{twice}` is read at `{index}` along two axes, and can be divided along one",
            f"name another index, or pass the entries of `{twice}` that are read as an array of their own",
        )
    available = jax.devices()
    if devices is not None and not 0 < devices <= len(available):
        raise TensorError(f"there are {len(available)} devices, not {devices}")
    made = kernel(instance, sizes)
    jitted: dict[tuple[Counts, np.dtype[Any]], Callable[..., Any]] = {}

    def call(*arguments: Any) -> Any:
        arrays = made.arrays(arguments)
        key = made.counts(arrays), made.dtype(arrays)
        if key not in jitted:
            plan = made.compile(*key)
            jitted[key] = shards.sharded(plan, arrays, axes, available[: devices or len(available)])
        return jitted[key](*arrays)

    return _in_float64(made, call)
