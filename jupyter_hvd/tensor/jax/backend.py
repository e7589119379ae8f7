"""Tensor SSA as JAX: a jitted function for the sizes of a call, whose time and memory follow the
supports of the predicates.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING, Any, cast

import jax
import jax.numpy as jnp
import numpy as np

from ..language.errors import TensorError
from ..lowering.choices import MODEL, Choices
from ..lowering.coo import split_operands
from ..lowering.plan import Counts, Plan
from ..lowering.relation_joins import Join
from ..lowering.sharding import Along, Axis, Division, divided_axes
from ..ssa.program import Program, Recurrence
from . import device_shards
from .arguments import conversion_to
from .kernel import Kernel, with_joins
from .memory import check_memory
from .precision import is_double, is_traced, keeping_float64
from .tuning import Tuning, choose_measured, tune

if TYPE_CHECKING:
    from ..instance import Instance


def kernel(
    instance: Instance,
    sizes: Mapping[str, int],
    constants: Iterable[tuple[str, float]] = (),
    program: Program | None = None,
) -> Kernel:
    """Return the kernel of an instance at given sizes, not yet jitted; `program` replaces the one that is computed by default."""
    kinds = [(x, t) for x, t, _ in instance.parameters]
    return Kernel(program or instance.computed, kinds, sizes, instance.primal, dict(constants))


def plan_call(made: Kernel, arguments: Sequence[Any]) -> Plan:
    """Return the plan by which a kernel computes these arguments."""
    with keeping_float64(is_double(made.kinds, arguments)):
        return made.plan(made.operands(arguments))


def tune_call(made: Kernel, arguments: Sequence[Any], *options: Any) -> Tuning:
    """Time the kernels for these arguments, and return the times; later calls are computed by the fastest."""
    with keeping_float64(is_double(made.kinds, arguments)):
        return tune(made, made.operands(arguments), *options)


@dataclass(frozen=True)
class Ready:
    """A jitted function for arguments of the same types, and with the same relations, as those that
    it was made for; it returns nested pairs of arrays. `rows` has the tuples of sets and of the boolean arrays that
    come with them, by the position of the argument, `joins` the tables of joins; `as_given` says that it takes the arguments as
    they are.
    """

    made: Kernel
    plan: Plan
    run: Callable[..., Any]
    rows: Mapping[int, Any]
    joins: Mapping[Join, Any]
    as_given: bool
    double: bool

    def kept(self) -> Callable[..., Any]:
        """Return the fastest callable for many calls with such arguments.

        That is the compiled function itself if it takes arguments as they are, that function of converted arguments if there
        are no relations, else this object with its tables on the device.
        """
        if self.double or self.rows or self.joins:
            return self.with_tables_on_device()
        if self.as_given:
            return self.run
        run, converted = self.run, [conversion_to(type_) for _, type_ in self.made.kinds]
        return lambda *arguments: run(*[f(x) for f, x in zip(converted, arguments, strict=True)])

    def with_tables_on_device(self) -> Ready:
        """Return a copy whose tables of relations and joins lie on the device."""
        with jax.ensure_compile_time_eval():
            rows, joins = jax.tree_util.tree_map(jnp.asarray, (self.rows, {**self.joins}))
        return replace(self, rows=rows, joins=joins)

    def __call__(self, *arguments: Any) -> Any:
        return self.on(arguments if self.as_given else self.operands(arguments))

    def operands(self, arguments: Sequence[Any]) -> tuple[Any, ...]:
        """Return arguments as `Kernel.operands` gives them, with the relations that this was made for."""
        return with_joins(self.made.arrays(arguments, self.rows), self.joins)

    def on_device(self, value: Any) -> Any:
        """Return a NumPy array as an array on the device; anything else as it is."""
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "fiub":
            return value
        with keeping_float64(self.double), jax.ensure_compile_time_eval():
            return jnp.array(value)

    def on(self, arrays: Sequence[Any]) -> Any:
        """Return the result for arguments as `Kernel.operands` gives them."""
        if not self.double:  # entering no context takes a microsecond too
            return self.run(*arrays)
        with keeping_float64(True):
            return self.run(*map(fresh_view, arrays))


def fresh_view(array: Any) -> Any:
    """Return a new view of a NumPy array, as JAX must not see the same object twice.

    After `jax.grad(f)(x)` without 64-bit types JAX 0.10 takes the very object `x` for its float32, with 64-bit types too.
    """
    return array.view() if type(array) is np.ndarray else array


Prepare = Callable[
    [Sequence[Any]], tuple[Ready, tuple[Any, ...]]
]  # it, and the arrays to run it on


def compile_instance(
    instance: Instance, sizes: Mapping[str, int], constants: Iterable[tuple[str, float]]
) -> Prepare:
    """Return a function that makes jitted functions of the instance's parameters for given arguments.

    Each is planned before JAX traces it. Calls raise TensorError if there is not the memory for it.
    """
    computed = _compile_kernel(kernel(instance, sizes, constants))
    if instance.differentiable is instance.ssa:
        return computed
    made: list[Prepare] = []

    def prepare(arguments: Sequence[Any]) -> tuple[Ready, tuple[Any, ...]]:
        """Return the jitted function for these arguments, and the operands to call it with."""
        if not is_traced(arguments):
            return computed(arguments)
        if not made:  # JAX may differentiate it: with what says how
            made.append(
                _compile_kernel(kernel(instance, sizes, constants, instance.differentiable))
            )
        return made[0](arguments)

    return prepare


def _compile_kernel(made: Kernel) -> Prepare:
    """Return the function that makes jitted functions of one kernel; see `compile_instance`."""

    def jitted(plan: Plan, _arrays: Sequence[Any]) -> Callable[..., Any]:
        return check_memory(plan, made.jit_plan(plan))

    return _cache_by_plan(made, made.operands, jitted, choose_measured)


def _cache_by_plan(
    made: Kernel,
    operands: Callable[[Sequence[Any]], tuple[Any, ...]],
    jitted: Callable[[Plan, Sequence[Any]], Callable[..., Any]],
    chosen: Callable[[Kernel, Sequence[Any]], Choices],
) -> Prepare:
    """Return a function that calls `jitted` once for each number of tuples, dtype and choice, and keeps what it returns."""
    found: dict[tuple[Counts, np.dtype[Any], Choices], tuple[Plan, Callable[..., Any]]] = {}

    def prepare(arguments: Sequence[Any]) -> tuple[Ready, tuple[Any, ...]]:
        double = is_double(made.kinds, arguments)
        with keeping_float64(double):
            arrays = operands(arguments)
            key = made.counts(arrays), made.dtype(arrays), chosen(made, arrays)
            if key not in found:
                plan = made.compile(*key)
                found[key] = plan, jitted(plan, arrays)
        as_given = len(arrays) == len(arguments) and all(map(operator.is_, arguments, arrays))
        rows, joins = made.rows(arrays), split_operands(arrays)[1]
        return Ready(made, *found[key], rows, joins, as_given, double), arrays

    return prepare


def compile_sharded(instance: Instance, sizes: Mapping[str, int], along: Along) -> Prepare:
    """Return what `compile_instance` does, with the sums over some indices of the program divided among devices.

    Raises:
        TensorError: one of the indices reads no parameter, or there are not so many devices.
    """
    if any(isinstance(s.rhs, Recurrence) for s in instance.ssa.statements):
        raise TensorError(
            "a loop that carries values is not divided among devices",
            "divide the sums outside of it, or call the function without `.sharded`",
        )
    available = jax.devices()
    counts = _count_devices(along, len(available))
    divisions = [
        Division(_axes_read_at(instance, index), count)
        for (index, _), count in zip(along, counts, strict=True)
    ]
    _require_apart(along, divisions)

    def jitted(plan: Plan, arrays: Sequence[Any]) -> Callable[..., Any]:
        # Of one value of the index there are no shares, and what is made of it has no axis along it.
        several = [
            one
            for one in divisions
            if any(n > 1 for n in device_shards.divided_extents(plan, arrays, one.axes))
        ]
        if not several:
            return cast("Callable[..., Any]", jax.jit(lambda *given: made.executed(plan, given)))
        used = available[: prod(one.devices for one in several)]
        return cast("Callable[..., Any]", device_shards.jit_sharded(plan, arrays, several, used))

    made = kernel(instance, sizes)
    return _cache_by_plan(made, made.arrays, jitted, lambda *_: MODEL)


def _axes_read_at(instance: Instance, index: str) -> tuple[Axis, ...]:
    """Return the parameters' axes that are read at an index, as those are divided; raise TensorError if there are none."""
    axes = divided_axes(instance.checked.function.body, instance.checked.called(index))
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
    return axes


def _count_devices(along: Along, available: int) -> list[int]:
    """Return the number of devices along each index; the one index without a number gets as many as are left."""
    said = prod(count for _, count in along if count is not None)
    open_ = [index for index, count in along if count is None]
    if len(open_) > 1:
        raise TensorError(
            f"nothing says how many devices are along `{open_[0]}` and how many along `{open_[1]}`",
            f"say it of one: `.sharded({open_[0]!r}, 2).sharded({open_[1]!r})`",
        )
    if any(count is not None and count < 1 for _, count in along) or said > available:
        raise TensorError(f"there are {available} devices, not {said}")
    return [available // said if count is None else count for _, count in along]


def _require_apart(along: Along, divisions: Sequence[Division]) -> None:
    """Raise TensorError where two indices divide one axis."""
    seen: dict[Axis, str] = {}
    for (index, _), division in zip(along, divisions, strict=True):
        for axis in division.axes:
            if axis in seen:
                raise TensorError(
                    f"`{axis[0]}` is read at `{seen[axis]}` and at `{index}` along one axis, which can be divided once",
                    f"divide along one of them, or pass `{axis[0]}` twice, by two names",
                )
            seen[axis] = index
