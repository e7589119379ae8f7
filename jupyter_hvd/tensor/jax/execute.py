"""A plan run by JAX, step by step: what is traced once and compiled by XLA."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..language.affine import Affine
from ..language.types import IndexArray, Integer, ParameterType, Relation, TupleSet
from ..lowering.coo import Tuples, table
from ..lowering.ir import (
    Accumulate,
    Action,
    Apply,
    Contract,
    Fill,
    Load,
    Nonzero,
    Scan,
    Step,
    Take,
    extents_of,
)
from ..lowering.plan import Plan
from ..lowering.tiling import Blocks
from ..lowering.turns import relation_of
from ..ssa.program import Output, flat, map_output
from . import contraction, elementwise
from .arguments import nested
from .runtime import Values, always, can_have_barrier


def execute(plan: Plan, arrays: Sequence[Any]) -> Any:
    """The results of a plan for its parameters in order, as `Kernel.operands` gives them; nested
    pairs of arrays.
    """
    return completed(plan, started(plan, arrays))


def completed(plan: Plan, values: Values) -> Any:
    """The results of a plan from what its first step starts from."""
    for part in plan.order:
        if isinstance(part, Blocks):
            values.arrays.update(run_blocks(part, values))
        elif part.name in plan.barriers:
            run_apart(part, plan, values)
        else:
            values.arrays[part.name] = run(part.action, values)
    return collected(plan.output, values.arrays)


def run_apart(step: Step, plan: Plan, values: Values) -> None:
    """A step whose array XLA does not fuse into what reads it, computed with what is fused into it
    and written once, with the zeros around it that are read with it: then what reads it has no
    branch at its ends.
    """
    ends = plan.margins.get(step.name)
    if not can_have_barrier(values):
        values.arrays[step.name] = run(step.action, values)
        return

    def make() -> Any:
        here = replace(values, arrays=dict(values.arrays))
        run_all(plan.producers[step.name], here)
        made = run(step.action, here)
        if ends is None:
            return made
        padding = [(before, after, 0) for before, after in ends]
        return lax.pad(made, jnp.zeros((), made.dtype), padding)

    shape = jax.eval_shape(make)
    made = lax.cond(always(values), make, lambda: jnp.zeros(shape.shape, shape.dtype))
    if ends is None:
        values.arrays[step.name] = made
        return
    starts = [before for before, _ in ends]
    stops = [n - after for n, (_, after) in zip(shape.shape, ends, strict=True)]
    values.arrays[step.name] = lax.slice(made, starts, stops)
    values.around[step.name] = made, tuple(starts)


def started(plan: Plan, arrays: Sequence[Any]) -> Values:
    """What the first step starts from."""
    data: dict[str, tuple[ParameterType, Any]] = {}
    reals = {}
    for (x, type_), value in zip(plan.parameters, arrays, strict=True):
        if isinstance(value, Tuples):
            data[x] = type_, jnp.asarray(value.mask)
            data[table(x)] = TupleSet(value.rows.shape[1]), jnp.asarray(value.rows)
        elif isinstance(type_, Relation | IndexArray | TupleSet):
            data[x] = type_, jnp.asarray(value)
        elif not isinstance(type_, Integer):
            reals[x] = nested(type_, value)
    return Values(plan.dtype, reals, data, both_ways=plan.both_ways, platform=plan.windows)


def run(action: Action, values: Values) -> Any:
    """The array that an action makes."""
    match action:
        case Load(parameter, path):
            value = values.arguments[parameter]
            for side in path:
                value = value[side]
            return jnp.asarray(value, values.dtype)
        case Fill(out, value):
            shape = extents_of(out)
            if not isinstance(value, Affine):
                return jnp.full(shape, float(value), values.dtype)
            total = jnp.full(shape, float(value.constant), values.dtype)
            for axis, (i, _) in enumerate(out):
                if k := value.coefficient(i):
                    total = total + k * lax.broadcasted_iota(values.dtype, tuple(shape), axis)
            return total
        case Contract():
            return contraction.contract(action, values)
        case Accumulate():
            return elementwise.accumulate(action, values)
        case Apply():
            return elementwise.apply(action, values)
        case Nonzero(array):
            return values.arrays[array] != 0
        case Scan():
            return scanned(action, values)
        case Take(source, place):
            return values.arrays[source][place]
    raise TypeError(action)


def scanned(action: Scan, values: Values) -> tuple[Any, ...]:
    """What a loop carries, by place: histories where they are kept, what is left last elsewhere."""
    body: Plan = action.body
    starts, rows, wholes = (
        {f"{letter}{j}": values.arrays[x] for j, x in enumerate(names)}
        for letter, names in (("s", action.starts), ("r", action.rows), ("c", action.wholes))
    )

    def turn(carried: dict[str, Any], now: tuple[Any, dict[str, Any]]) -> tuple[Any, Any]:
        index, row = now
        data = {**values.data, relation_of(action.index): (IndexArray(()), index)}
        here = Values(
            body.dtype,
            {**carried, **row, **wholes},
            data,
            both_ways=body.both_ways,
            platform=body.windows,
        )
        here = replace(here, under_shard_map=values.under_shard_map)
        completed(body, here)
        made = {f"s{j}": here.arrays[x] for j, x in enumerate(flat(body.output))}
        return made, {p: x for p, x in made.items() if int(p[1:]) in action.kept}

    turns = jnp.arange(action.count, dtype=jnp.int32)
    last, histories = lax.scan(turn, starts, (turns, rows))
    return tuple(
        jnp.concatenate([x[None], histories[p]]) if p in histories else last[p]
        for p, x in starts.items()
    )


def run_blocks(blocks: Blocks, values: Values) -> dict[str, Any]:
    """The results of steps that run block by block."""

    def block(sums: Any, offset: Any) -> tuple[Any, Any]:
        here = replace(values, arrays=dict(values.arrays), under_shard_map=True, offset=offset)
        run_all(blocks.steps, here)
        added = [total + here.arrays[x] for total, x in zip(sums, blocks.added, strict=True)]
        return added, [here.arrays[x] for x, _ in blocks.joined]

    offsets = jnp.arange(blocks.count, dtype=jnp.int32) * blocks.rows
    shapes = jax.eval_shape(lambda offset: block([0.0] * len(blocks.added), offset)[0], offsets[0])
    start = [jnp.zeros(x.shape, x.dtype) for x in shapes]
    sums, parts = lax.scan(block, start, offsets)
    found = dict(zip(blocks.added, sums, strict=True))
    for (name, axis), part in zip(blocks.joined, parts, strict=True):
        rows = jnp.moveaxis(part, 0, axis)  # the blocks before the rows of each
        shape = (*rows.shape[:axis], blocks.count * blocks.rows, *rows.shape[axis + 2 :])
        found[name] = lax.slice_in_dim(rows.reshape(shape), 0, blocks.extent, 1, axis)
    return found


def run_all(steps: Sequence[Step], values: Values) -> None:
    """Steps one after the other, without barriers."""
    for step in steps:
        values.arrays[step.name] = run(step.action, values)


def collected(output: Output, arrays: Mapping[str, Any]) -> Any:
    """The arrays of an output tree, as nested pairs."""
    return map_output(arrays.__getitem__, lambda a, b: (a, b), output)
