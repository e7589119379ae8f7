"""A program at the sizes of a call as one jitted function, and statement by statement."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import PartitionSpec

from ..cost.counting import Data
from ..language.types import IndexArray, Integer, ParameterType, Product, Relation, TupleSet
from ..lowering.coo import Tuples, enumerated, is_sparse, table, with_tuples
from ..lowering.dataflow import relations, sources
from ..lowering.ir import Action, Apply, Fill, Load, Step, Test, Total
from ..lowering.ir import Product as ProductStep
from ..lowering.liveness import restrict
from ..lowering.lower import Plan, plan
from ..lowering.sharding import Axis, gathered, mapped, once
from ..lowering.sharding import sharded as divide
from ..lowering.specialize import at_sizes
from ..lowering.tiling import Blocks
from ..ssa.program import Output, Program, flat
from . import contraction, elementwise
from .runtime import Values, fence

Kinds = list[tuple[str, ParameterType]]
Counts = tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Stage:
    """One statement, ready to run by itself: `run(*operands)` gives its arrays, `keep` stores
    them for the statements after it.
    """

    statement: str
    run: Callable[..., Any]
    operands: tuple[Any, ...]
    keep: Callable[[Any], None]


class Kernel:
    """A program at given sizes. Plans are made once for each count of relations' tuples."""

    def __init__(self, program: Program, kinds: Kinds, sizes: Mapping[str, int]) -> None:
        self.kinds = kinds
        self.program = at_sizes(program, sizes)
        self.plans: dict[Counts, Plan] = {}
        self.types = {
            x: _at_sizes(t, sizes)
            for x, t in kinds
            if isinstance(t, Relation | IndexArray | TupleSet)
        }
        self.enumerated = enumerated(self.program)

    def arrays(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """The arguments as JAX takes them: sets of tuples as rows in order."""
        return tuple(_array(t, v) for (_, t), v in zip(self.kinds, arguments, strict=True))

    def operands(self, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        """As `arrays`, but boolean arrays with few true entries come with their tuples."""

        def operand(x: str, type_: ParameterType, value: Any) -> Any:
            if not isinstance(type_, Relation) or x not in self.enumerated:
                return value
            if isinstance(value, jax.core.Tracer) or not is_sparse(value):
                return value
            return with_tuples(value)

        arrays = self.arrays(arguments)
        return tuple(operand(x, t, v) for (x, t), v in zip(self.kinds, arrays, strict=True))

    def relations(self, arguments: tuple[Any, ...]) -> dict[str, Data]:
        """The data of relations and index arrays, on the host."""
        return {
            x: Data(t, np.asarray(value))
            for (x, t), value in zip(self.kinds, self.arrays(arguments), strict=True)
            if isinstance(t, Relation | IndexArray | TupleSet)
        }

    def counts(self, arrays: tuple[Any, ...]) -> Counts:
        """The number of tuples of each relation that is given by its tuples."""
        return tuple(
            (x, len(value.rows if isinstance(value, Tuples) else value))
            for (x, t), value in zip(self.kinds, arrays, strict=True)
            if isinstance(t, TupleSet) or isinstance(value, Tuples)
        )

    @cached_property
    def restricted(self) -> Program:
        """The program, only what is read computed; the same for every number of tuples."""
        return restrict(self.program)

    def plan(self, arrays: tuple[Any, ...]) -> Plan:
        """The plan for these arguments, of which only the numbers of tuples matter."""
        counts = self.counts(arrays)
        if counts not in self.plans:
            self.plans[counts] = plan(self.restricted, self.types, dict(counts))
        return self.plans[counts]

    def values(self, arrays: tuple[Any, ...]) -> Values:
        """What the first step starts from."""
        data: dict[str, tuple[ParameterType, Any]] = {}
        reals = {}
        for (x, type_), value in zip(self.kinds, arrays, strict=True):
            if isinstance(value, Tuples):
                data[x] = self.types[x], jnp.asarray(value.mask)
                data[table(x)] = TupleSet(value.rows.shape[1]), jnp.asarray(value.rows)
            elif isinstance(type_, Relation | IndexArray | TupleSet):
                data[x] = self.types[x], jnp.asarray(value)
            elif not isinstance(type_, Integer):
                reals[x] = _pairs(type_, value)
        return Values(_float_type(reals), reals, data)

    def run(self, *arrays: Any) -> Any:
        """The whole program; nested pairs of arrays."""
        made, values = self.plan(arrays), self.values(arrays)
        values.both_ways = made.both_ways
        for step in made.order:
            if isinstance(step, Blocks):
                values.arrays.update(run_blocks(step, values))
            else:
                values.arrays[step.name] = execute(step, values, made.fenced)
        return _output(made.output, values.arrays)

    def sharded(self, arrays: tuple[Any, ...], axes: Sequence[Axis], devices: Sequence[Any]) -> Any:
        """The whole program as a jitted function, divided among devices along parameters' axes."""
        made = self.plan(arrays)
        data = {
            x: np.shape(v) for (x, _), v in zip(self.kinds, arrays, strict=True) if x in self.types
        }
        shards = divide(made, axes, data, len(devices))
        rows = shards.extent // shards.devices
        mesh = jax.sharding.Mesh(np.array(devices), ("shards",))

        def run(*arrays: Any) -> Any:
            values = self.values(arrays)
            values.whole, values.offset = True, lax.axis_index("shards") * rows
            for step in shards.steps:
                every = values.arrays
                values.arrays = once(step, shards, every, "shards")
                found = execute(step, values)
                values.arrays = every
                if step.name in shards.early:
                    found = lax.psum(found, "shards")
                values.arrays[step.name] = found
            return _output(made.output, gathered(values.arrays, made, shards, "shards"))

        given = {(x, path): axis for x, path, axis in axes}

        def spec(axis: int | None) -> Any:
            return PartitionSpec() if axis is None else PartitionSpec(*[None] * axis, "shards")

        def parameter(x: str, type_: Any, value: Any, path: tuple[int, ...] = ()) -> Any:
            if isinstance(type_, Integer):
                return ()
            if isinstance(value, tuple):
                return tuple(
                    parameter(x, None, part, _path(k, len(value), path))
                    for k, part in enumerate(value)
                )
            return spec(given.get((x, path)))

        ins = tuple(
            parameter(x, t, value) for (x, t), value in zip(self.kinds, arrays, strict=True)
        )
        kept = {name: spec(shards.local.get(name)) for name in flat(made.output)}
        return jax.jit(mapped(run, mesh, ins, _output(made.output, kept)))

    def stages(self, arguments: tuple[Any, ...]) -> Iterator[Stage]:
        """The statements one by one; each needs the arrays kept of those before it."""
        arrays = self.operands(arguments)
        made, start = self.plan(arrays), self.values(arrays)
        names = dict.fromkeys(s.name for s in self.program.statements)
        for name in names:
            steps = [step for step in made.steps if step.statement == name]
            yield self._stage(name, steps, start)

    def _stage(self, name: str, steps: list[Step], start: Values) -> Stage:
        own = {step.name for step in steps}
        used = {x for step in steps for x in relations(step.action)}
        needed = {x for step in steps for x in sources(step.action)}
        needed = (needed | (used - start.data.keys())) - own
        given = {x: start.arrays[x] for x in sorted(needed)}
        loaded = {step.action.parameter for step in steps if isinstance(step.action, Load)}
        reals = {x: start.arguments[x] for x in sorted(loaded)}
        data = {x: start.data[x][1] for x in sorted(used & start.data.keys())}

        def run(given: Any, reals: Any, data: Any) -> Any:
            related = {x: (start.data[x][0], array) for x, array in data.items()}
            values = Values(start.dtype, reals, related, dict(given))
            for step in steps:
                values.arrays[step.name] = execute(step, values)
            return {x: values.arrays[x] for x in sorted(own)}

        return Stage(name, run, (given, reals, data), start.arrays.update)


def execute(step: Step, values: Values, fenced: frozenset[str] = frozenset()) -> Any:
    """The array that a step makes; those named in `fenced` before anything reads them."""
    made = _made(step.action, values)
    return fence(made, values) if step.name in fenced else made


def run_blocks(blocks: Blocks, values: Values) -> dict[str, Any]:
    """The results of steps that run block by block."""

    def block(sums: Any, offset: Any) -> tuple[Any, Any]:
        here = Values(
            values.dtype,
            values.arguments,
            values.data,
            dict(values.arrays),
            values.both_ways,
            True,
            offset,
        )
        for step in blocks.steps:
            here.arrays[step.name] = execute(step, here)
        added = [total + here.arrays[x] for total, x in zip(sums, blocks.added, strict=True)]
        return added, [here.arrays[x] for x, _ in blocks.joined]

    count = -(-blocks.extent // blocks.rows)
    offsets = jnp.arange(count, dtype=jnp.int32) * blocks.rows
    shapes = jax.eval_shape(lambda offset: block([0.0] * len(blocks.added), offset)[0], offsets[0])
    start = [jnp.zeros(x.shape, x.dtype) for x in shapes]
    sums, parts = lax.scan(block, start, offsets)
    found = dict(zip(blocks.added, sums, strict=True))
    for (name, axis), part in zip(blocks.joined, parts, strict=True):
        rows = jnp.moveaxis(part, 0, axis)  # the blocks before the rows of each
        shape = (*rows.shape[:axis], count * blocks.rows, *rows.shape[axis + 2 :])
        found[name] = lax.slice_in_dim(rows.reshape(shape), 0, blocks.extent, 1, axis)
    return found


def _made(action: Action, values: Values) -> Any:
    match action:
        case Load(parameter, path):
            value = values.arguments[parameter]
            for side in path:
                value = value[side]
            return jnp.asarray(value, values.dtype)
        case Fill(out, value):
            return jnp.full([n.constant for _, n in out], float(value), values.dtype)
        case ProductStep():
            return contraction.product(action, values)
        case Total():
            return elementwise.total(action, values)
        case Apply():
            return elementwise.apply(action, values)
        case Test(array):
            return values.arrays[array] != 0
    raise TypeError(action)


def _output(output: Output, arrays: Mapping[str, Any]) -> Any:
    if isinstance(output, str):
        return arrays[output]
    return _output(output[0], arrays), _output(output[1], arrays)


def _path(k: int, count: int, path: tuple[int, ...]) -> tuple[int, ...]:
    """The projections to part k of a tuple of so many, which is nested pairs."""
    return (*path, *[1] * k, *([0] if k < count - 1 else []))


def _at_sizes(type_: Any, sizes: Mapping[str, int]) -> Any:
    if isinstance(type_, TupleSet):
        return type_
    from ..language.affine import Affine

    known = {name: Affine.of(value) for name, value in sizes.items()}
    return type(type_)(tuple(n.substitute(known) for n in type_.dims))


def _array(type_: Any, value: Any) -> Any:
    if isinstance(type_, Integer):
        return ()
    if isinstance(type_, TupleSet):
        return np.array(sorted(value), dtype=np.int32).reshape(len(value), type_.arity)
    if isinstance(value, tuple):
        return tuple(_array(None, part) for part in value)
    if isinstance(value, list):
        value = np.array(value)
    if isinstance(value, np.ndarray | np.generic):
        if value.dtype.kind == "O":  # fractions
            return value.astype(float)
        return value.astype(value.dtype.newbyteorder("="), copy=False)
    return value


def _pairs(type_: Any, value: Any) -> Any:
    if isinstance(type_, Product):
        rest = value[1:] if len(value) > 2 else value[1]
        return _pairs(type_.first, value[0]), _pairs(type_.second, rest)
    return value


def _float_type(reals: Mapping[str, Any]) -> Any:
    """The floating type of the real arguments together."""
    leaves = jax.tree_util.tree_leaves(reals)
    together = jnp.result_type(*leaves) if leaves else jnp.result_type(float)
    return together if jnp.issubdtype(together, jnp.floating) else jnp.result_type(float)
