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
from ..lowering.cells import Application, Batch, Entries, Indices, Known, Plan, Summation
from ..lowering.composition import Group, group_stages
from ..lowering.dataflow import COSTLY, FENCED
from ..lowering.plan import Plan as Program
from ..lowering.point_values import Added, Step, Summed
from .arguments import as_array, floating_type, leaves
from .backend import Ready, fresh_view
from .elementwise import call
from .memory import free_bytes, within_memory
from .precision import is_double, is_traced, keeping_float64
from .runtime import truth_of

__all__ = [
    "Values",
    "bcoo",
    "evaluated",
    "floating",
    "free_bytes",
    "inputs",
    "is_traced",
    "on_device",
]


@dataclass(frozen=True)
class Values:
    """What entries are multiplied by: `given`, or where there is a `run` the `count` arrays that it makes of that, of which those
    in `passed_on` are arguments.
    """

    given: Sequence[Any]
    run: Ready | None = None
    count: int = 0
    passed_on: frozenset[int] = frozenset()


def evaluated(plan: Plan, arrays: Sequence[Any], values: Values, dtype: Any, double: bool) -> Any:
    """The values of the last stage's entries. JAX compiles one function for each plan and the program of values, so that no
    array need be stored between them. Raises TensorError where there is not the memory for it.
    """
    with keeping_float64(double):
        place: dict[int, int] = {}
        for array in values.given:
            place.setdefault(id(array), len(place))
        which = tuple([place[id(array)] for array in values.given])  # to XLA equal ones are one
        once = [values.given[which.index(k)] for k in range(len(place))]
        given = map(fresh_view, once) if double else once
        made = None if values.run is None else (values.run.run, values.count, values.passed_on)
        run = _run if values.run is None else _within_memory(values.run.plan)
        return run(plan, np.dtype(dtype), made, which, tuple(given), tuple(arrays))


@functools.lru_cache
def _within_memory(plan: Program) -> Callable[..., Any]:
    return within_memory(plan, _run)


@functools.partial(jax.jit, static_argnums=(0, 1, 2, 3))
def _run(
    plan: Plan,
    dtype: Any,
    of_values: tuple[Callable[..., Any], int, frozenset[int]] | None,
    which: Sequence[int],
    once: Sequence[Any],
    arrays: Sequence[Any],
) -> Any:
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
            written, made = _together(item, dtype, values, arrays)
            values = written or values
    first = len(made)
    known = dict(enumerate(made))
    for group in group_stages(stages, first):
        run = functools.partial(_grouped, group, stages, first, known, dtype, values, arrays)
        known[group.stages[-1]] = _computed_once(run, values) if group.once else run()
    return known[first + len(stages) - 1]


def _grouped(
    group: Group,
    stages: Sequence[Summed],
    first: int,
    known: Mapping[int, Any],
    dtype: Any,
    values: Sequence[Any],
    arrays: Sequence[Any],
) -> Any:
    """The entries of a group's last stage; stages are numbered from `first` on."""
    here = dict(known)
    for k in group.stages:
        here[k] = _stage(stages[k - first], here, dtype, values, arrays)
    return here[group.stages[-1]]


def _count_gathered(plan: Plan, arrays: Sequence[Any]) -> Counter[int]:
    """How many entries are gathered of each value."""
    found = Counter[int]()
    for stage in plan:
        for addend in () if isinstance(stage, Batch) else stage.addends:
            for step in addend.steps:
                if step.operation == "[]" and step.places:
                    found[step.value] += arrays[step.places[0]].size
    return found


def _fence(value: Any, given: Sequence[Any]) -> Any:
    """A value, not computed anew by XLA for CPUs for each entry that is gathered of it."""
    floats = _float_arrays(given)
    if not floats or jax.default_backend() != "cpu":
        return value
    return lax.cond(truth_of(floats[0]), lambda x: x, jnp.zeros_like, value)


def _float_arrays(values: Sequence[Any]) -> list[Any]:
    leaves = jax.tree_util.tree_leaves(values)
    return [x for x in leaves if jnp.size(x) and jnp.issubdtype(jnp.result_type(x), jnp.floating)]


def _computed_once(run: Callable[[], Any], values: Sequence[Any]) -> Any:
    """What `run` makes, not computed anew by XLA for CPUs for each entry that is gathered of it."""
    shape = jax.eval_shape(run)
    floats = _float_arrays(values)
    if shape.size < FENCED or not floats or jax.default_backend() != "cpu":
        return run()
    return jax.lax.cond(truth_of(floats[0]), run, lambda: jnp.zeros(shape.shape, shape.dtype))


def _stage(
    stage: Summed,
    made: Mapping[int, Any],
    dtype: Any,
    values: Sequence[Any],
    arrays: Sequence[Any],
) -> Any:
    """The entries of a stage. Those of addends without slots are added first, in one loop."""
    total: Any = jnp.zeros(stage.size, dtype)
    for source, position, steps, slot, inside in sorted(stage.addends, key=_has_slots):
        part: Any = jnp.ones((), dtype) if source is None else made[source]
        if position is not None:
            part = _gather(part, arrays[position])
        if steps:
            part = part * _value(steps, dtype, values, arrays)
        if inside is not None:
            part = jnp.where(arrays[inside], part, jnp.zeros((), dtype))
        total = total + part if slot is None else _add_at(total, arrays[slot], part)
    return total


def _gather(array: Any, *places: Any) -> Any:
    """The entries at places that lie in the array."""
    count = len(places)
    numbers = lax.GatherDimensionNumbers((), (*range(count),), (*range(count),))
    mode = lax.GatherScatterMode.PROMISE_IN_BOUNDS
    return lax.gather(array, jnp.stack(places, 1), numbers, (1,) * count, mode=mode)


def _add_at(total: Any, slots: Any, part: Any) -> Any:
    """`total`, and a part added at slots in it, in order."""
    numbers = lax.ScatterDimensionNumbers((), (0,), (0,))
    mode = lax.GatherScatterMode.PROMISE_IN_BOUNDS
    part = jnp.broadcast_to(part, slots.shape)
    return lax.scatter_add(total, slots[:, None], part, numbers, indices_are_sorted=True, mode=mode)


def _has_slots(addend: Added) -> bool:
    return addend.slot is not None


def _together(
    batch: Batch, dtype: Any, values: Sequence[Any], arrays: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """The values of a batch, and the entries of its stages, that are read elsewhere."""

    def of(part: Known) -> Any:
        match part:
            case Entries(value):
                return values[value].ravel()
            case Indices(array):
                return arrays[array]
        return np.array([part])

    known = [of(part) for part in batch.known]
    cells = jnp.concatenate([jnp.asarray(x, dtype) for x in known])
    cells = jnp.pad(cells, (0, batch.total - len(cells)))
    for operation in batch.operations:
        made = _operated(operation, cells, dtype, arrays)
        cells = jax.lax.dynamic_update_slice(cells, made, (operation.start,))
    written = [_gather(cells, arrays[k]).reshape(shape) for k, shape in batch.values]
    return written, [_gather(cells, arrays[k]) for k in batch.stages]


def _operated(
    operation: Summation | Application, cells: Any, dtype: Any, arrays: Sequence[Any]
) -> Any:
    """The new cells of one operation."""
    if isinstance(operation, Application):
        given = [_gather(cells, arrays[k]) for k in operation.arguments]
        return jnp.broadcast_to(call(operation.function, given, dtype), (operation.size,))
    made = _gather(cells, arrays[operation.left]) * _gather(cells, arrays[operation.right])
    if operation.slots is None:
        return made
    return _add_at(jnp.zeros(operation.size, dtype), arrays[operation.slots], made)


def _value(steps: Sequence[Step], dtype: Any, values: Sequence[Any], arrays: Sequence[Any]) -> Any:
    """The factors at the points of an addend."""
    found: list[Any] = []
    for operation, arguments, masks, value, places in steps:
        given = [found[k] for k in arguments]
        inside = [None if k is None else arrays[k] for k in masks]
        if operation == "+":
            sides = [_kept(m, x) for m, x in zip(inside, given, strict=True)]
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
            made = call(operation, safe, dtype)
        elif operation == "*":
            made = functools.reduce(operator.mul, given)
        elif operation == "[]":
            made = _gather(values[value], *(arrays[k] for k in places)) if places else values[value]
        elif operation is None:
            made = arrays[places[0]].astype(dtype)
        else:
            made = jnp.asarray(float(operation), dtype)  # type: ignore[arg-type]
        found.append(_kept(mask, made))
    return found[-1]


def _kept(mask: Any, x: Any) -> Any:
    return x if mask is None else jnp.where(mask, x, jnp.zeros((), x.dtype))


def floating(
    parameters: Sequence[Parameter], arguments: Mapping[str, Any]
) -> tuple[bool, np.dtype[Any]]:
    """Whether a call computes with 64-bit types whatever JAX's default is, and its type of numbers."""
    kinds = [(p.name, p.type) for p in parameters]
    double = is_double(kinds, [arguments[x] for x, _ in kinds])
    with keeping_float64(double):
        real = [
            as_array(t, arguments[x]) for x, t in kinds if isinstance(t, Real | Array | Product)
        ]
        return double, floating_type([leaf for value in real for leaf in leaves(value)])


def inputs(
    parameters: Sequence[Parameter],
    arguments: Mapping[str, Any],
    names: Sequence[str],
    double: bool,
) -> list[Any]:
    """Arguments by name, as arrays."""
    types = {p.name: p.type for p in parameters}
    with keeping_float64(double):
        return [jnp.asarray(as_array(types[x], arguments[x])) for x in names]


def on_device(arrays: Sequence[Any]) -> tuple[Any, ...]:
    """Arrays as JAX's, also while it traces; of one array twice one."""
    with jax.ensure_compile_time_eval():
        made = {id(a): jnp.asarray(a) for a in arrays}
    return tuple([made[id(a)] for a in arrays])


def bcoo(rows: Any, columns: Any, values: Any, shape: tuple[int, int]) -> Any:
    """JAX's sparse array of some entries, in row-major order and none twice."""
    from jax.experimental.sparse import BCOO

    indices = jnp.stack([jnp.asarray(rows), jnp.asarray(columns)], axis=1)
    return BCOO((values, indices), shape=shape, indices_sorted=True, unique_indices=True)
