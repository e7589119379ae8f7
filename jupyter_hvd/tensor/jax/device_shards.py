"""Runs a plan on several devices, each with a shard of the values of one or two indices (`lowering.sharding`)."""

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
from ..lowering.sharding import Axis, Division, Halo, Shards, Shares, shard_plan, with_halo
from ..ssa.program import flatten_output
from .execute import collect_output, initial_values, run_action
from .runtime import Values

Place = tuple[str, tuple[int, ...]]  # a parameter, and a path of projections


def jit_sharded(
    plan: Plan, arrays: Sequence[Any], divisions: Sequence[Division], devices: Sequence[Any]
) -> Any:
    """Return a jitted function of arrays like these, divided among devices along parameters' axes."""
    shapes = {
        x: np.shape(value)
        for (x, t), value in zip(plan.parameters, arrays, strict=True)
        if isinstance(t, Relation | IndexArray | TupleSet)
    }
    longest = (max(divided_extents(plan, arrays, one.axes)) for one in divisions)
    divisions = [replace(one, extent=n) for one, n in zip(divisions, longest, strict=True)]
    shards = shard_plan(plan, divisions, shapes)
    grid = np.array(devices).reshape([one.devices for one in shards.shares])
    mesh = jax.sharding.Mesh(grid, tuple(one.name for one in shards.shares))

    def run_share(*arrays: Any) -> Any:
        offsets = {one.offset: lax.axis_index(one.name) * one.rows for one in shards.shares}
        values = replace(initial_values(plan, arrays), under_shard_map=True, offsets=offsets)
        for step in shards.steps:
            found = run_action(step.action, _as_partial_sum(step, shards, values))
            early = tuple(one.name for one in shards.shares if step.name in one.early)
            found = lax.psum(found, early) if early else found
            values.arrays[step.name] = found
            around = [one for one in shards.shares if step.name in one.halos]
            for one in around:
                found = exchange_halos(found, one.local[step.name], one.halos[step.name], one)
            if around:
                values.arrays[with_halo(step.name)] = found
        found = all_reduce_outputs(values.arrays, plan, shards)
        return {name: found[name] for name in outs}

    given: dict[Place, dict[int, Shares]] = {}
    for division, one in zip(divisions, shards.shares, strict=True):
        for x, path, axis in division.axes:
            given.setdefault((x, path), {})[axis] = one

    def spec(_: Any, axes: Mapping[int, Shares]) -> Any:
        return _partition_spec({axis: one.name for axis, one in axes.items()})

    ins = tuple(
        () if isinstance(t, Integer) else _map_arrays(spec, x, value, given)
        for (x, t), value in zip(plan.parameters, arrays, strict=True)
    )
    outs = {
        name: _partition_spec(
            {one.local[name]: one.name for one in shards.shares if name in one.local}
        )
        for name in flatten_output(plan.output)
    }
    whole = plan.shapes(whole=True)
    on_shares = shard_map(run_share, mesh, ins, outs)

    def run_shares(*arrays: Any) -> Any:
        padded = [
            value if isinstance(t, Integer) else _map_arrays(_pad_for_shards, x, value, given)
            for (x, t), value in zip(plan.parameters, arrays, strict=True)
        ]
        found = on_shares(*padded)
        for one in shards.shares:
            for x in outs & one.local.keys():
                axis = one.local[x]
                if found[x].shape[axis] > whole[x][axis]:
                    found[x] = lax.slice_in_dim(found[x], 0, whole[x][axis], axis=axis)
        return collect_output(plan.output, found)

    return jax.jit(run_shares)


def _pad_for_shards(array: Any, axes: Mapping[int, Shares]) -> Any:
    """Return an array with zeros behind its divided axes, so that all shares are equal."""
    shape = np.shape(array)
    missing = [axes[k].rows * axes[k].devices - n if k in axes else 0 for k, n in enumerate(shape)]
    return jnp.pad(jnp.asarray(array), [(0, n) for n in missing]) if any(missing) else array


def exchange_halos(array: Any, axis: int, halo: Halo, among: Shares) -> Any:
    """Return a share with the rows around it that its neighbours have; zeros before the first and behind the last share.

    Each device sends `before` rows on and `behind` rows back, of each but the outermost ones; further neighbours are asked
    where these have not so many.
    """
    rows, devices = array.shape[axis], among.devices

    def piece(distance: int, width: int) -> Any:
        """The rows next to a share that lie with the device so many places further on, or back where it is negative."""
        start = 0 if distance > 0 else rows - width
        part = lax.slice_in_dim(array, start, start + width, axis=axis)
        pairs = [(d + distance, d) for d in range(devices) if 0 <= d + distance < devices]
        return lax.ppermute(part, among.name, pairs) if pairs else jnp.zeros_like(part)

    def widths(count: int) -> list[int]:
        return [min(rows, count - start) for start in range(0, count, rows)]

    before, behind = map(widths, halo)
    front = [piece(-k, n) for k, n in enumerate(before, 1)][::-1]
    back = [piece(k, n) for k, n in enumerate(behind, 1)]
    return jnp.concatenate([*front, array, *back], axis=axis)


def divided_extents(plan: Plan, arrays: Sequence[Any], axes: Sequence[Axis]) -> list[int]:
    """Return how long each divided axis of the parameters is."""
    given, found = dict[Place, dict[int, None]](), list[int]()
    for x, path, axis in axes:
        given.setdefault((x, path), {})[axis] = None

    def look(array: Any, axes: Mapping[int, None]) -> None:
        found.extend(np.shape(array)[axis] for axis in axes)

    for (x, _), value in zip(plan.parameters, arrays, strict=False):
        _map_arrays(look, x, value, given)
    return found


def _partition_spec(axes: Mapping[int, str]) -> Any:
    """Return JAX's PartitionSpec for axes that are divided along named mesh axes."""
    return PartitionSpec(*(axes.get(k) for k in range(max(axes, default=-1) + 1)))


def _map_arrays(
    change: Callable[[Any, Mapping[int, Any]], Any],
    x: str,
    value: Any,
    given: Mapping[Place, Mapping[int, Any]],
    path: tuple[int, ...] = (),
) -> Any:
    """Return a parameter with `change` applied to each of its arrays and the axes that are divided of it."""
    if isinstance(value, tuple):
        last = len(value) - 1  # part k of a tuple, which is nested pairs
        paths = ((*path, *[1] * k, *([0] if k < last else [])) for k in range(len(value)))
        parts = zip(value, paths, strict=True)
        return tuple(_map_arrays(change, x, part, given, at) for part, at in parts)
    return change(value, given.get((x, path), {}))


def _as_partial_sum(step: Step, shards: Shards, values: Values) -> Values:
    """Return the values for a total of partial sums: what all devices have alike counts on the first device only."""
    sources = step.action.sources
    if not isinstance(step.action, Accumulate):
        return values
    once: dict[str, Any] = {}
    for one in shards.shares:
        if sources & one.partial:
            first = lax.axis_index(one.name) == 0
            for x in sources - one.partial - one.local.keys():
                once[x] = jnp.where(first, once.get(x, values.arrays[x]), 0)
    return replace(values, arrays={**values.arrays, **once})


def all_reduce_outputs(found: dict[str, Any], plan: Plan, shards: Shards) -> dict[str, Any]:
    """Return the outputs with partial sums added up over the devices; those over the same devices share one all-reduce."""
    over: dict[tuple[str, ...], list[str]] = {}
    for x in dict.fromkeys(flatten_output(plan.output)):
        axes = tuple(one.name for one in shards.shares if x in one.partial)
        if axes:
            over.setdefault(axes, []).append(x)
    for axes, names in over.items():
        together = lax.psum(jnp.concatenate([found[x].ravel() for x in names]), axes)
        start = 0
        for x in names:
            part = lax.slice_in_dim(together, start, start + found[x].size)
            start += found[x].size
            found = {**found, x: part.reshape(found[x].shape)}
    return found


def shard_map(function: Any, mesh: Any, in_specs: Any, out_specs: Any) -> Any:
    """Return `jax.shard_map` of a function, also in versions of JAX that have it elsewhere."""
    specs = {"mesh": mesh, "in_specs": in_specs, "out_specs": out_specs}
    if hasattr(jax, "shard_map"):
        return jax.shard_map(function, check_vma=False, **specs)
    from jax.experimental import shard_map as old

    return old.shard_map(function, check_rep=False, **specs)
