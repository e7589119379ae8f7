"""The values of a sparse Jacobian, computed for its index tuples and as one vector."""

from __future__ import annotations

import functools
import operator
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ..language.function import Function
from ..language.types import Array, Parameter, Product, Real
from ..lowering.cells import (
    Application,
    Batch,
    IntegerEntries,
    Known,
    Plan,
    Summation,
    ValueEntries,
)
from ..lowering.composition import Group, group_stages
from ..lowering.dataflow import COSTLY, FENCED
from ..lowering.plan import Plan as Program
from ..lowering.point_values import Added, PointStep, Summed
from .arguments import as_array, flat_arrays, floating_type
from .backend import Ready, fresh_view
from .elementwise import call_primitive
from .memory import check_memory, free_bytes
from .precision import is_double, is_traced, keeping_float64
from .runtime import truth_of

__all__ = [
    "EntryValues",
    "choose_precision",
    "evaluate_entries",
    "free_bytes",
    "is_traced",
    "make_bcoo",
    "move_to_device",
    "select_arrays",
]


@dataclass(frozen=True)
class EntryValues:
    """What entries are multiplied by: `given`, or if there is a `run` the `count` arrays that it makes of those; `passed_on`
    numbers its mere arguments.
    """

    given: Sequence[Any]
    run: Ready | None = None
    count: int = 0
    passed_on: frozenset[int] = frozenset()


def evaluate_entries(
    plan: Plan, arrays: Sequence[Any], values: EntryValues, dtype: Any, double: bool
) -> Any:
    """Return the values of the last stage's entries.

    JAX compiles one function for each plan and the program of values, so that no array need be stored between them. Raises
    TensorError if there is not the memory for it.
    """
    with keeping_float64(double):
        place: dict[int, int] = {}
        for array in values.given:
            place.setdefault(id(array), len(place))
        which = tuple([place[id(array)] for array in values.given])  # to XLA equal ones are one
        once = [values.given[which.index(k)] for k in range(len(place))]
        given = map(fresh_view, once) if double else once
        made = None if values.run is None else (values.run.run, values.count, values.passed_on)
        run = _run if values.run is None else _checked_run(values.run.plan)
        return run(plan, np.dtype(dtype), made, which, tuple(given), tuple(arrays))


@functools.lru_cache
def _checked_run(plan: Program) -> Callable[..., Any]:
    """Return `_run` with a check of the memory that a plan needs."""
    return check_memory(plan, _run)


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _run(
    plan: Plan,
    dtype: Any,
    of_values: tuple[Callable[..., Any], int, frozenset[int]] | None,
    which: Sequence[int],
    once: Sequence[Any],
    arrays: Sequence[Any],
) -> Any:
    """Return the values of all entries of a plan; jitted once for each plan."""
    values = [once[k] for k in which]
    if of_values is not None:
        run, count, passed_on = of_values
        given, rest, values = values, run(*values), []
        for _ in range(count - 1):
            first, rest = rest
            values.append(first)
        values.append(rest)
        for k, n in _count_gathered(plan, arrays).items():
            if k not in passed_on and n > values[k].size >= COSTLY:
                values[k] = _fence(values[k], given)
    made: list[Any] = []
    stages = [item for item in plan if not isinstance(item, Batch)]
    for item in plan:
        if isinstance(item, Batch):
            written, made = _run_batch(item, dtype, values, arrays)
            values = written or values
    first = len(made)
    known = dict(enumerate(made))
    for group in group_stages(stages, first):
        run = functools.partial(_run_group, group, stages, first, known, dtype, values, arrays)
        known[group.stages[-1]] = _compute_once(run, values) if group.once else run()
    return known[first + len(stages) - 1]


def _run_group(
    group: Group,
    stages: Sequence[Summed],
    first: int,
    known: Mapping[int, Any],
    dtype: Any,
    values: Sequence[Any],
    arrays: Sequence[Any],
) -> Any:
    """Return the entries of a group's last stage; stages are numbered from `first` on."""
    here = dict(known)
    for k in group.stages:
        here[k] = _run_stage(stages[k - first], here, dtype, values, arrays)
    return here[group.stages[-1]]


def _count_gathered(plan: Plan, arrays: Sequence[Any]) -> Counter[int]:
    """Return how many entries are gathered of each value."""
    found = Counter[int]()
    for stage in plan:
        for addend in () if isinstance(stage, Batch) else stage.addends:
            for step in addend.steps:
                if step.operation == "[]" and step.places:
                    found[step.value] += arrays[step.places[0]].size
    return found


def _fence(value: Any, given: Sequence[Any]) -> Any:
    """Return a value that XLA for CPUs does not compute anew for each entry that is gathered of it."""
    floats = _float_arrays(given)
    if not floats or jax.default_backend() != "cpu":
        return value
    return lax.cond(truth_of(floats[0]), lambda x: x, jnp.zeros_like, value)


def _float_arrays(values: Sequence[Any]) -> list[Any]:
    """Return the nonempty floating arrays among values."""
    leaves = jax.tree_util.tree_leaves(values)
    return [x for x in leaves if jnp.size(x) and jnp.issubdtype(jnp.result_type(x), jnp.floating)]


def _compute_once(run: Callable[[], Any], values: Sequence[Any]) -> Any:
    """Return what `run` makes, such that XLA for CPUs does not compute it anew for each entry that is gathered of it."""
    shape = jax.eval_shape(run)
    floats = _float_arrays(values)
    if shape.size < FENCED or not floats or jax.default_backend() != "cpu":
        return run()
    return jax.lax.cond(truth_of(floats[0]), run, lambda: jnp.zeros(shape.shape, shape.dtype))


def _run_stage(
    stage: Summed,
    made: Mapping[int, Any],
    dtype: Any,
    values: Sequence[Any],
    arrays: Sequence[Any],
) -> Any:
    """Return the entries of a stage. Addends without slots are added first, in one loop."""
    total: Any = jnp.zeros(stage.size, dtype)
    for source, position, steps, slot, inside in sorted(stage.addends, key=_has_slots):
        part: Any = jnp.ones((), dtype) if source is None else made[source]
        if position is not None:
            part = _gather_inside(part, arrays[position])
        if steps:
            part = part * _multiply_factors(steps, dtype, values, arrays)
        if inside is not None:
            part = jnp.where(arrays[inside], part, jnp.zeros((), dtype))
        total = total + part if slot is None else _scatter_add(total, arrays[slot], part)
    return total


def _gather_inside(array: Any, *places: Any) -> Any:
    """Return the entries of an array at places that are known to lie inside."""
    count = len(places)
    numbers = lax.GatherDimensionNumbers((), (*range(count),), (*range(count),))
    mode = lax.GatherScatterMode.PROMISE_IN_BOUNDS
    return lax.gather(array, jnp.stack(places, 1), numbers, (1,) * count, mode=mode)


def _scatter_add(total: Any, slots: Any, part: Any) -> Any:
    """Return `total` with a part added at sorted slots in it."""
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    mode = lax.GatherScatterMode.PROMISE_IN_BOUNDS
    part = jnp.broadcast_to(part, slots.shape)
    return lax.scatter_add(total, slots[:, None], part, numbers, indices_are_sorted=True, mode=mode)


def _has_slots(addend: Added) -> bool:
    """Return whether an addend goes to computed positions."""
    return addend.slot is not None


def _run_batch(
    batch: Batch, dtype: Any, values: Sequence[Any], arrays: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """Return the values of a batch, and the entries of its stages, that are read elsewhere."""

    def of(part: Known) -> Any:
        match part:
            case ValueEntries(value):
                return values[value].ravel()
            case IntegerEntries(array):
                return arrays[array]
        return np.array([part])

    known = [of(part) for part in batch.known]
    cells = jnp.concatenate([jnp.asarray(x, dtype) for x in known])
    cells = jnp.pad(cells, (0, batch.total - len(cells)))
    for operation in batch.operations:
        made = _run_operation(operation, cells, dtype, arrays)
        cells = jax.lax.dynamic_update_slice(cells, made, (operation.start,))
    written = [_gather_inside(cells, arrays[k]).reshape(shape) for k, shape in batch.values]
    return written, [_gather_inside(cells, arrays[k]) for k in batch.stages]


def _run_operation(
    operation: Summation | Application, cells: Any, dtype: Any, arrays: Sequence[Any]
) -> Any:
    """Return the new cells of one operation."""
    if isinstance(operation, Application):
        given = [_gather_inside(cells, arrays[k]) for k in operation.arguments]
        return jnp.broadcast_to(call_primitive(operation.function, given, dtype), (operation.size,))
    made = _gather_inside(cells, arrays[operation.left]) * _gather_inside(
        cells, arrays[operation.right]
    )
    if operation.slots is None:
        return made
    return _scatter_add(jnp.zeros(operation.size, dtype), arrays[operation.slots], made)


def _multiply_factors(
    steps: Sequence[PointStep], dtype: Any, values: Sequence[Any], arrays: Sequence[Any]
) -> Any:
    """Return the value of an addend at its points."""
    found: list[Any] = []
    for operation, arguments, masks, value, places in steps:
        given = [found[k] for k in arguments]
        inside = [None if k is None else arrays[k] for k in masks]
        if operation == "+":
            sides = [_where_mask(m, x) for m, x in zip(inside, given, strict=True)]
            found.append(sides[0] + sides[1])
            continue
        (mask,) = inside
        if isinstance(operation, Function):
            # Where the mask is false the function sees 1, of which it makes no NaN.
            safe = (
                given
                if mask is None
                else [jnp.where(mask, x, jnp.ones((), x.dtype)) for x in given]
            )
            made = call_primitive(operation, safe, dtype)
        elif operation == "*":
            made = functools.reduce(operator.mul, given)
        elif operation == "[]":
            made = (
                _gather_inside(values[value], *(arrays[k] for k in places))
                if places
                else values[value]
            )
        elif operation is None:
            made = arrays[places[0]].astype(dtype)
        else:
            made = jnp.asarray(float(operation), dtype)  # type: ignore[arg-type]
        found.append(_where_mask(mask, made))
    return found[-1]


def _where_mask(mask: Any, x: Any) -> Any:
    """Return x, zero where a mask is false."""
    return x if mask is None else jnp.where(mask, x, jnp.zeros((), x.dtype))


def choose_precision(
    parameters: Sequence[Parameter], arguments: Mapping[str, Any]
) -> tuple[bool, np.dtype[Any]]:
    """Return whether a call computes with 64-bit types whatever JAX's default is, and its floating dtype."""
    kinds = [(p.name, p.type) for p in parameters]
    double = is_double(kinds, [arguments[x] for x, _ in kinds])
    with keeping_float64(double):
        real = [
            as_array(t, arguments[x]) for x, t in kinds if isinstance(t, Real | Array | Product)
        ]
        return double, floating_type([leaf for value in real for leaf in flat_arrays(value)])


def select_arrays(
    parameters: Sequence[Parameter],
    arguments: Mapping[str, Any],
    names: Sequence[str],
    double: bool,
) -> list[Any]:
    """Return the arguments with some names, as arrays."""
    types = {p.name: p.type for p in parameters}
    with keeping_float64(double):
        return [jnp.asarray(as_array(types[x], arguments[x])) for x in names]


def move_to_device(arrays: Sequence[Any]) -> tuple[Any, ...]:
    """Return arrays as JAX's arrays, also while it traces; equal objects become one."""
    with jax.ensure_compile_time_eval():
        made = {id(a): jnp.asarray(a) for a in arrays}
    return tuple([made[id(a)] for a in arrays])


def make_bcoo(rows: Any, columns: Any, values: Any, shape: tuple[int, int]) -> Any:
    """Return JAX's sparse matrix of some entries, which are in row-major order and without duplicates."""
    from jax.experimental.sparse import BCOO

    indices = jnp.stack([jnp.asarray(rows), jnp.asarray(columns)], axis=1)
    return BCOO((values, indices), shape=shape, indices_sorted=True, unique_indices=True)
