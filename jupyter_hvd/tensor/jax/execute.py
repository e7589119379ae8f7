"""A plan run by JAX, step by step: what is traced once and compiled by XLA."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..language.affine import Affine
from ..language.types import IndexArray, Integer, ParameterType, Relation, TupleSet
from ..lowering.coo import Tuples, split_operands, table_name
from ..lowering.ir import (
    OFFSET,
    Accumulate,
    Action,
    Apply,
    Contract,
    Fill,
    Load,
    MakeIndexArray,
    Nonzero,
    Reduce,
    Rerun,
    ReversedRow,
    Scan,
    Step,
    Take,
    Whole,
    extents_of,
)
from ..lowering.loop_counters import counter_relation
from ..lowering.plan import Plan
from ..lowering.running_sums import solving_order
from ..lowering.tiling import Blocks
from ..ssa.program import Output, flatten_output, map_output
from . import contraction, elementwise
from .access import Space
from .arguments import as_nested_pairs
from .computed_indices import round_to_indices
from .dense import apply_definition
from .linear import run_linear_loop
from .runtime import Values, can_have_barrier, hidden_true, hide_from_xla, look_up_entries
from .single_kernels import in_one_kernel


def execute(plan: Plan, arrays: Sequence[Any]) -> Any:
    """Return the results of a plan for its parameters in order, as `Kernel.operands` gives them: nested pairs of arrays."""
    return run_plan(plan, initial_values(plan, arrays))


def run_plan(plan: Plan, values: Values) -> Any:
    """Return the results of a plan, from the values that its first step starts with."""
    again: dict[str, Any] = {}
    for part in plan.order:
        if isinstance(part, Blocks):
            values.arrays.update(run_blocks(part, values))
        elif part.name in plan.remade.readers and can_have_barrier(values):
            again |= recompute_steps(
                plan.remade.producers_behind(part, again.keys()), again, values
            )
            here = replace(values, arrays={**values.arrays, **again})
            run_planned_step(part, plan, here)
            values.arrays[part.name] = here.arrays[part.name]
        else:
            run_planned_step(part, plan, values)
    return collect_output(plan.output, values.arrays)


def run_planned_step(step: Step, plan: Plan, values: Values) -> None:
    """Run a step, with a fusion barrier behind it if the plan says so."""
    if step.name in plan.barriers:
        run_unfused(step, plan, values)
    else:
        run_step(step, plan, values)


def recompute_steps(
    steps: Sequence[Step], again: Mapping[str, Any], values: Values
) -> dict[str, Any]:
    """Return the arrays of steps computed once more, from sources hidden from XLA, so that it does not merge both."""
    made = {step.name for step in steps}
    sources = sorted({x for step in steps for x in step.action.sources} - made - again.keys())
    given = {x: values.arrays[x] for x in sources if values.arrays[x].ndim}
    hid = {x: hide_from_xla(array, values) for x, array in given.items()}
    here = replace(values, arrays={**values.arrays, **again, **hid})
    run_steps(steps, here)
    return {x: here.arrays[x] for x in made}


def run_step(step: Step, plan: Plan, values: Values) -> None:
    """Run a step, and store its array."""
    action = step.action
    if step.name in plan.quotients and isinstance(action, Apply):
        values.inverted[step.name] = elementwise.compute_divisor(action, values)
    values.arrays[step.name] = run_action(action, values)


def run_unfused(step: Step, plan: Plan, values: Values) -> None:
    """Run a step whose array XLA is not to fuse into its readers, with the zeros around it that are read with it.

    It is computed together with what is fused into it and written once; then what reads it has no branch at its ends.
    """
    ends = plan.margins.get(step.name)
    if not can_have_barrier(values):
        values.arrays[step.name] = run_action(step.action, values)
        return

    def make() -> Any:
        here = replace(values, arrays=dict(values.arrays), inverted={})
        run_steps(plan.producers[step.name], here)
        array = run_action(step.action, here)
        if ends is None:
            return array
        padding = [(before, after, 0) for before, after in ends]
        return lax.pad(array, jnp.zeros((), array.dtype), padding)

    shape = jax.eval_shape(make)
    made = lax.cond(hidden_true(values), make, lambda: jnp.zeros(shape.shape, shape.dtype))
    if ends is None:
        values.arrays[step.name] = made
        return
    starts = [before for before, _ in ends]
    stops = [n - after for n, (_, after) in zip(shape.shape, ends, strict=True)]
    values.arrays[step.name] = lax.slice(made, starts, stops)
    values.around[step.name] = made, tuple(starts)


def initial_values(plan: Plan, arrays: Sequence[Any]) -> Values:
    """Return the values that the first step starts from: arguments, relations, and joins."""
    data: dict[str, tuple[ParameterType, Any]] = {}
    reals = {}
    below = dict(plan.counts)
    arguments, joins = split_operands(arrays)
    for join, rows in joins.items():
        data[join] = TupleSet(rows.shape[1]), jnp.asarray(rows)
    for (x, type_), value in zip(plan.parameters, arguments, strict=True):
        if isinstance(value, Tuples):
            data[x] = type_, jnp.asarray(value.mask)
            data[table_name(x)] = TupleSet(value.rows.shape[1]), jnp.asarray(value.rows)
        elif isinstance(type_, IndexArray):
            data[x] = replace(type_, below=below.get(x)), jnp.asarray(value)
        elif isinstance(type_, Relation | TupleSet):
            data[x] = type_, jnp.asarray(value)
        elif not isinstance(type_, Integer):
            reals[x] = as_nested_pairs(type_, value)
    return Values(
        plan.dtype, reals, data, both_ways=plan.both_ways, device=plan.windows, made=plan.made
    )


def run_action(action: Action, values: Values) -> Any:
    """Return the array that an action makes."""
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
            return elementwise.run_apply(action, values)
        case Reduce():
            return elementwise.run_reduction(action, values)
        case Nonzero(array):
            return values.arrays[array] != 0
        case MakeIndexArray(array, below):
            return round_to_indices(values.arrays[array], below)
        case Scan():
            return run_scan(action, values)
        case Rerun():
            return run_recomputing(action, values)
        case Take(source, place):
            return values.arrays[source][place]
        case Whole(_, definition, operands, _):
            return apply_definition(definition, [values.arrays[x] for x in operands])
    raise TypeError(action)


UNROLLED = 200  # steps of iterations that are compiled as one
Carried = dict[str, Any]  # arrays by the parameter of a loop's body, which is `s0`, `s1`, …


def run_scan(action: Scan, values: Values) -> tuple[Any, ...]:
    """Return what a loop carries, by place: a history if one is kept, else the last value; then what its blocks begin with, if
    asked for.
    """
    starts, rows = (
        _number_values("s", action.starts, values),
        _number_values("r", action.rows, values),
    )
    if action.sums:
        return _run_running_sums(action, starts, rows, values)
    turns = _make_iterations(action, values)
    if action.solution:
        return _run_composed(action, starts, rows, values)
    if action.backwards:
        parts = zip(rows.items(), action.backwards, strict=True)
        last, histories = turns(
            starts, 0, {p: _reverse_rows(x, r, action.count) for (p, x), r in parts}, action.count
        )
        return _order_results(starts, last, {p: jnp.flip(x, 0) for p, x in histories.items()})
    if not action.every:
        last, histories = turns(starts, 0, rows, action.count)
        return _order_results(starts, last, histories)

    def block(carried: Carried, first: Any, count: int) -> tuple[Carried, Any]:
        last, histories = turns(carried, first, _slice_rows(rows, first, count), count)
        return last, (carried, histories)

    full, rest = divmod(action.count, action.every)
    firsts = jnp.arange(full, dtype=jnp.int32) * action.every
    last, (begins, blocks) = lax.scan(lambda c, k: block(c, k, action.every), starts, firsts)
    histories = {p: x.reshape(-1, *x.shape[2:]) for p, x in blocks.items()}
    if rest:
        begins = {p: jnp.concatenate([x, last[p][None]]) for p, x in begins.items()}
        last, (_, more) = block(last, full * action.every, rest)
        histories = {p: jnp.concatenate([x, more[p]]) for p, x in histories.items()}
    return *_order_results(starts, last, histories), begins


def _run_composed(action: Scan, starts: Carried, rows: Carried, values: Values) -> tuple[Any, ...]:
    """Return what a loop of linear iterations carries, computed by composing them pairwise.

    If some of that is not finite, the iterations run one after the other: products of their matrices may overflow where these
    do not.
    """
    if action.backwards:
        parts = zip(rows.items(), action.backwards, strict=True)
        rows = {p: jnp.flip(_reverse_rows(x, r, action.count), 0) for (p, x), r in parts}
    found = run_linear_loop(action, starts, rows, _make_iteration(action, values))
    finite = jnp.stack([jnp.isfinite(x).all() for x in found]).all()

    def one_by_one() -> tuple[Any, ...]:
        last, histories = _make_iterations(replace(action, backwards=()), values)(
            starts, 0, rows, action.count
        )
        return _order_results(starts, last, histories)

    return lax.cond(finite, lambda: found, one_by_one)  # type: ignore[no-any-return]


def _run_running_sums(
    action: Scan, starts: Carried, rows: Carried, values: Values
) -> tuple[Any, ...]:
    """Return what a loop that only adds carries, as running sums along its iterations."""
    if action.backwards:
        parts = zip(rows.items(), action.backwards, strict=True)
        rows = {p: jnp.flip(_reverse_rows(x, r, action.count), 0) for (p, x), r in parts}
    added = rows | {p: x[None] for p, x in _number_values("c", action.wholes, values).items()}
    histories: Carried = {}
    for place in solving_order(action.sums) or ():
        start = starts[own := f"s{place}"]
        terms = [
            histories[x][:-1] if x in histories else added[x]
            for x in action.sums[place]
            if x != own
        ]
        each = sum(terms, jnp.zeros((action.count, *start.shape), start.dtype))
        if own in action.sums[place]:
            each = start + jnp.cumsum(each, 0)
        histories[own] = jnp.concatenate([start[None], each])
    return tuple(
        histories[p] if place in action.kept else histories[p][-1] for place, p in enumerate(starts)
    )


def run_recomputing(action: Rerun, values: Values) -> tuple[Any, ...]:
    """Return what a loop in reverse carries, as `run_scan`: the iterations of each block, the last block first, are computed
    again and then reversed.
    """
    back, again, begins = action.back, action.again, values.arrays[action.source][-1]
    starts, rows = _number_values("s", back.starts, values), _given_rows(action, values)
    kept, inputs = (
        _number_values("s", again.starts, values),
        _number_values("r", again.rows, values),
    )
    forth, reversed_ = _make_iterations(again, values), _make_iterations(back, values)

    def block(carried: Carried, number: Any, done: Any, count: int) -> tuple[Carried, Carried]:
        """The iterations of a block, after so many in reverse."""
        first = number * action.length
        here = kept | {p: lax.dynamic_index_in_dim(x, number, 0, False) for p, x in begins.items()}
        _, made = forth(here, first, _slice_rows(inputs, first, count), count)
        found = _slice_rows(rows, done, count)
        for row in action.taken:
            left = made[p := f"s{row.place}"]
            if not row.after:
                left = jnp.concatenate([here[p][None], left[:-1]])
            found[f"r{row.row}"] = left[::-1]
        return reversed_(carried, done, found, count)

    full, rest = divmod(back.count, action.length)
    last, histories = block(starts, full, 0, rest) if rest else (starts, {})
    numbers = jnp.arange(full, dtype=jnp.int32)
    last, blocks = lax.scan(
        lambda c, k: block(c, full - 1 - k, rest + k * action.length, action.length), last, numbers
    )
    more = {p: x.reshape(-1, *x.shape[2:]) for p, x in blocks.items()}
    joined = {p: jnp.concatenate([histories[p], x]) if rest else x for p, x in more.items()}
    return _order_results(starts, last, joined)


def _make_iteration(action: Scan, values: Values) -> Callable[..., tuple[Carried, Carried]]:
    """Return the function of one iteration: it takes what is carried and read, and returns what is carried and what is kept."""
    body: Plan = action.body
    wholes = _number_values("c", action.wholes, values)

    def run_iteration(carried: Carried, now: tuple[Any, Carried]) -> tuple[Carried, Carried]:
        """Run one iteration at an index with its rows."""
        index, row = now
        data = {**values.data, counter_relation(action.index): (IndexArray(()), index)}
        here = Values(
            body.dtype,
            {**carried, **row, **wholes},
            data,
            both_ways=body.both_ways,
            device=body.windows,
            made=body.made,
        )
        turns = {**values.turns, counter_relation(action.index): action.count}
        here = replace(here, under_shard_map=values.under_shard_map, turns=turns)
        run_plan(body, here)
        made = {f"s{j}": here.arrays[x] for j, x in enumerate(flatten_output(body.output))}
        return made, {p: x for p, x in made.items() if int(p[1:]) in action.kept}

    return run_iteration


def _make_iterations(action: Scan, values: Values) -> Callable[..., tuple[Carried, Carried]]:
    """Return a function that runs so many iterations by `lax.scan`; it returns what they leave and the histories without their
    starts.
    """
    turn, body = _make_iteration(action, values), action.body
    unroll = max(1, min(body.device.unroll, UNROLLED // max(1, len(body.order))))

    def run_iterations(
        carried: Carried, first: Any, rows: Carried, count: int
    ) -> tuple[Carried, Carried]:
        """Run `count` iterations from the index `first` on."""
        indices = first + jnp.arange(count, dtype=jnp.int32)
        backwards = bool(action.backwards)
        given = carried, (indices[::-1] if backwards else indices, rows)
        loop = partial(lax.scan, turn, reverse=backwards, unroll=unroll)
        return in_one_kernel(loop, *given) if can_be_one_kernel(values) else loop(*given)  # type: ignore[no-any-return]

    return run_iterations


def can_be_one_kernel(values: Values) -> bool:
    """Return whether loops run on a single CPU: XLA does not divide marked calls among devices."""
    alone = not values.under_shard_map and jax.default_backend() == "cpu"
    return alone and jax.device_count() == 1


def _number_values(letter: str, names: Sequence[str], values: Values) -> Carried:
    """Return the values of some names, numbered by a letter: `s0`, `s1`, …."""
    return {f"{letter}{j}": values.arrays[x] for j, x in enumerate(names)}


def _reverse_rows(array: Any, row: ReversedRow, count: int) -> Any:
    """Return the rows of a loop, the last iteration's first."""
    if row.begin is None:
        return jnp.flip(array, 0)
    return lax.slice_in_dim(array, row.begin, row.begin + count)


def _given_rows(action: Rerun, values: Values) -> Carried:
    """Return the rows of a loop in reverse that come from outside."""
    return {f"r{j}": values.arrays[x] for j, x in zip(action.given, action.back.rows, strict=True)}


def _slice_rows(rows: Carried, first: Any, count: int) -> Carried:
    """Return `count` rows of each array from `first` on."""
    return {p: lax.dynamic_slice_in_dim(x, first, count) for p, x in rows.items()}


def _order_results(starts: Carried, last: Carried, histories: Carried) -> tuple[Any, ...]:
    """Return for each carried value its history with its start, or its last value."""
    return tuple(
        jnp.concatenate([x[None], histories[p]]) if p in histories else last[p]
        for p, x in starts.items()
    )


def run_blocks(blocks: Blocks, values: Values) -> dict[str, Any]:
    """Return the results of steps that run block by block."""
    if blocks.windows:
        return _run_windows(blocks, values)

    def run_block(sums: Any, offset: Any) -> tuple[Any, Any]:
        """Run the steps for one block, add its part to the sums, and return the rest."""
        arrays, offsets = dict(values.arrays), {**values.offsets, OFFSET: offset}
        here = replace(values, arrays=arrays, inverted={}, under_shard_map=True, offsets=offsets)
        run_steps(blocks.steps, here)
        added = [total + here.arrays[x] for total, x in zip(sums, blocks.added, strict=True)]
        return added, [here.arrays[x] for x, _ in blocks.joined]

    offsets = jnp.arange(blocks.count, dtype=jnp.int32) * blocks.rows
    shapes = jax.eval_shape(
        lambda offset: run_block([0.0] * len(blocks.added), offset)[0], offsets[0]
    )
    start = [jnp.zeros(x.shape, x.dtype) for x in shapes]
    sums, parts = lax.scan(run_block, start, offsets)
    found = dict(zip(blocks.added, sums, strict=True))
    for (name, axis), part in zip(blocks.joined, parts, strict=True):
        rows = jnp.moveaxis(part, 0, axis)  # the blocks before the rows of each
        shape = (*rows.shape[:axis], blocks.count * blocks.rows, *rows.shape[axis + 2 :])
        found[name] = lax.slice_in_dim(rows.reshape(shape), 0, blocks.extent, 1, axis)
    return found


def _run_windows(blocks: Blocks, values: Values) -> dict[str, Any]:
    """Return the results of steps that run for one entry of windows after the other."""
    names = [f"{OFFSET}{k}" for k in range(len(blocks.windows))]

    def add_entry(totals: list[Any], number: Any) -> tuple[list[Any], None]:
        places = jnp.unravel_index(number, blocks.windows)
        bounds = dict(zip(names, blocks.windows, strict=True))
        offsets = {**values.offsets, **dict(zip(names, places, strict=True))}
        here = replace(
            values,
            arrays={**values.arrays},
            inverted={},
            under_shard_map=True,
            offsets=offsets,
            offsets_below=bounds,
        )
        run_steps(blocks.steps, here)
        space = Space({})
        look_up_entries((), space, here)
        found = []
        for total, one in zip(totals, blocks.placed, strict=True):
            starts = [space.index(a)[0] for a in one.starts]
            part = here.arrays[one.name]
            before = lax.dynamic_slice(total, starts, part.shape)
            found.append(lax.dynamic_update_slice(total, before + part, starts))
        return found, None

    start = [jnp.zeros(one.shape, values.dtype) for one in blocks.placed]
    totals, _ = lax.scan(add_entry, start, jnp.arange(blocks.count, dtype=jnp.int32))
    return dict(zip([one.name for one in blocks.placed], totals, strict=True))


def run_steps(steps: Sequence[Step], values: Values) -> None:
    """Run steps one after the other, without barriers."""
    for step in steps:
        values.arrays[step.name] = run_action(step.action, values)


def collect_output(output: Output, arrays: Mapping[str, Any]) -> Any:
    """Return the arrays of an output tree, as nested pairs."""
    return map_output(arrays.__getitem__, lambda a, b: (a, b), output)
