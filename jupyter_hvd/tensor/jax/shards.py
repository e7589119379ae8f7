"""A plan run by several devices, each with its share of one index's values (`lowering.sharding`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
from ..lowering.sharding import Axis, Halo, Shards, shard, with_halo
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
            if step.name in shards.halos:
                values.arrays[with_halo(step.name)] = exchanged(
                    found, shards.local[step.name], shards.halos[step.name], len(devices)
                )
        found = all_reduce_outputs(values.arrays, plan, shards)
        return {name: found[name] for name in outs}

    given = {(x, path): axis for x, path, axis in axes}
    ins = tuple(
        () if isinstance(t, Integer) else _each(lambda _, axis: _spec(axis), x, value, given)
        for (x, t), value in zip(plan.parameters, arrays, strict=True)
    )
    outs = {name: _spec(shards.local.get(name)) for name in flat(plan.output)}
    whole, total = plan.shapes(whole=True), shards.rows * len(devices)
    on_shares = shard_map(run_share, mesh, ins, outs)

    def pad(array: Any, axis: int | None) -> Any:
        return _padded(array, axis, total)

    def run_shares(*arrays: Any) -> Any:
        padded = [
            value if isinstance(t, Integer) else _each(pad, x, value, given)
            for (x, t), value in zip(plan.parameters, arrays, strict=True)
        ]
        found = on_shares(*padded)
        for x in outs & shards.local.keys():
            axis = shards.local[x]
            if whole[x][axis] < total:
                found[x] = lax.slice_in_dim(found[x], 0, whole[x][axis], axis=axis)
        return collected(plan.output, found)

    return jax.jit(run_shares)


def _padded(array: Any, axis: int | None, total: int) -> Any:
    """An array with zeros behind what is divided of it, for shares that are equal."""
    if axis is None or np.shape(array)[axis] == total:
        return array
    missing = [(0, total - n if k == axis else 0) for k, n in enumerate(np.shape(array))]
    return jnp.pad(jnp.asarray(array), missing)


def exchanged(array: Any, axis: int, halo: Halo, devices: int) -> Any:
    """A share with the rows around it that its neighbours have, and zeros before the first and behind the last.

    Each device sends `before` rows on and `behind` rows back, of each but the outermost ones; further neighbours are asked
    where these have not so many.
    """
    rows = array.shape[axis]

    def piece(distance: int, width: int) -> Any:
        """The rows next to a share that lie with the device so many places further on, or back where it is negative."""
        start = 0 if distance > 0 else rows - width
        part = lax.slice_in_dim(array, start, start + width, axis=axis)
        pairs = [(d + distance, d) for d in range(devices) if 0 <= d + distance < devices]
        return lax.ppermute(part, MESH, pairs) if pairs else jnp.zeros_like(part)

    def widths(count: int) -> list[int]:
        return [min(rows, count - start) for start in range(0, count, rows)]

    before, behind = map(widths, halo)
    front = [piece(-k, n) for k, n in enumerate(before, 1)][::-1]
    back = [piece(k, n) for k, n in enumerate(behind, 1)]
    return jnp.concatenate([*front, array, *back], axis=axis)


def extents(plan: Plan, arrays: Sequence[Any], axes: Sequence[Axis]) -> list[int]:
    """Of each parameter's axis that is divided, how long it is."""
    given, found = {(x, path): axis for x, path, axis in axes}, list[int]()

    def look(array: Any, axis: int | None) -> None:
        if axis is not None:
            found.append(np.shape(array)[axis])

    for (x, _), value in zip(plan.parameters, arrays, strict=False):
        _each(look, x, value, given)
    return found


def _spec(axis: int | None) -> Any:
    return PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, MESH)


def _each(
    change: Callable[[Any, int | None], Any],
    x: str,
    value: Any,
    given: Mapping[tuple[str, tuple[int, ...]], int],
    path: tuple[int, ...] = (),
) -> Any:
    """A parameter with something made of each of its arrays and the axis that is divided of it."""
    if isinstance(value, tuple):
        last = len(value) - 1  # part k of a tuple, which is nested pairs
        paths = ((*path, *[1] * k, *([0] if k < last else [])) for k in range(len(value)))
        parts = zip(value, paths, strict=True)
        return tuple(_each(change, x, part, given, at) for part, at in parts)
    return change(value, given.get((x, path)))


def _as_partial_sum(step: Step, shards: Shards, values: Values) -> Values:
    """What a total of partial sums reads: what all devices have, on the first device only."""
    sources = step.action.sources
    if not isinstance(step.action, Accumulate) or not sources & shards.partial:
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
