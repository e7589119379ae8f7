"""A plan run by several devices, each with its share of one index's values (`lowering.sharding`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec

from ..language.types import IndexArray, Integer, Relation, TupleSet
from ..lowering.ir import Accumulate, Step
from ..lowering.plan import Plan
from ..lowering.sharding import Axis, Shards, shard
from ..ssa.program import flat
from .execute import collected, run, started
from .runtime import Values

MESH = "shards"  # the axis of the devices


def sharded(plan: Plan, arrays: Sequence[Any], axes: Sequence[Axis], devices: Sequence[Any]) -> Any:
    """A jitted function of arrays like these, divided among devices along parameters' axes."""
    shapes = {
        x: np.shape(value)
        for (x, t), value in zip(plan.parameters, arrays, strict=True)
        if isinstance(t, Relation | IndexArray | TupleSet)
    }
    shards = shard(plan, axes, shapes, len(devices))
    mesh = jax.sharding.Mesh(np.array(devices), (MESH,))

    def run_share(*arrays: Any) -> Any:
        offset = lax.axis_index(MESH) * shards.rows
        values = replace(started(plan, arrays), under_shard_map=True, offset=offset)
        for step in shards.steps:
            found = run(step.action, _as_partial_sum(step, shards, values))
            early = step.name in shards.early
            values.arrays[step.name] = lax.psum(found, MESH) if early else found
        return collected(plan.output, all_reduce_outputs(values.arrays, plan, shards))

    given = {(x, path): axis for x, path, axis in axes}
    ins = tuple(
        () if isinstance(t, Integer) else _specs(x, value, given)
        for (x, t), value in zip(plan.parameters, arrays, strict=True)
    )
    outs = {name: _spec(shards.local.get(name)) for name in flat(plan.output)}
    return jax.jit(shard_map(run_share, mesh, ins, collected(plan.output, outs)))


def _spec(axis: int | None) -> Any:
    return PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, MESH)


def _specs(
    x: str, value: Any, given: Mapping[tuple[str, tuple[int, ...]], int], path: tuple[int, ...] = ()
) -> Any:
    if isinstance(value, tuple):
        last = len(value) - 1  # part k of a tuple, which is nested pairs
        paths = ((*path, *[1] * k, *([0] if k < last else [])) for k in range(len(value)))
        return tuple(_specs(x, part, given, at) for part, at in zip(value, paths, strict=True))
    return _spec(given.get((x, path)))


def _as_partial_sum(step: Step, shards: Shards, values: Values) -> Values:
    """What a total of partial sums reads: what all devices have, on the first device only."""
    sources = step.action.sources
    partial = step.name in shards.partial and bool(sources & shards.partial)
    if not isinstance(step.action, Accumulate) or not partial:
        return values
    first = lax.axis_index(MESH) == 0
    common = sources - shards.partial - shards.local.keys()
    once = {x: jnp.where(first, values.arrays[x], 0) for x in common}
    return replace(values, arrays={**values.arrays, **once})


def all_reduce_outputs(found: dict[str, Any], plan: Plan, shards: Shards) -> dict[str, Any]:
    """The outputs, partial sums added up over the devices in one all-reduce."""
    names = [x for x in dict.fromkeys(flat(plan.output)) if x in shards.partial]
    if not names:
        return found
    together = lax.psum(jnp.concatenate([found[x].ravel() for x in names]), MESH)
    start = 0
    for x in names:
        part = lax.slice_in_dim(together, start, start + found[x].size)
        start += found[x].size
        found = {**found, x: part.reshape(found[x].shape)}
    return found


def shard_map(function: Any, mesh: Any, in_specs: Any, out_specs: Any) -> Any:
    """`jax.shard_map`, wherever this JAX has it."""
    specs = {"mesh": mesh, "in_specs": in_specs, "out_specs": out_specs}
    if hasattr(jax, "shard_map"):
        return jax.shard_map(function, check_vma=False, **specs)
    from jax.experimental import shard_map as old

    return old.shard_map(function, check_rep=False, **specs)
