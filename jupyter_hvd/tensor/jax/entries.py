"""The values of a sparse Jacobian, computed for its index tuples and as one vector."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..language.types import Array, Parameter, Product, Real
from ..lowering.entries import Stage
from .arguments import as_array, floating_type, leaves
from .memory import free_bytes
from .precision import is_double, is_traced, keeping_float64

__all__ = ["bcoo", "evaluated", "evaluation", "floating", "free_bytes", "is_traced"]


class Read(NamedTuple):
    """An addend of a stage, its arrays by their positions in a list; None for those that there are not."""

    source: int | None
    position: int | None
    value: int | None
    places: tuple[int, ...]
    slot: int | None


class Step(NamedTuple):
    """A stage: the number of its entries and what they are the sums of."""

    count: int
    reads: tuple[Read, ...]


class Evaluation(NamedTuple):
    """How the values of a Jacobian are computed: steps, of which JAX compiles one function for each, and the index arrays
    that they read.
    """

    steps: tuple[Step, ...]
    indices: tuple[Any, ...]


def evaluation(stages: Sequence[Stage], values: Mapping[tuple[str, int], int]) -> Evaluation:
    """The stages as JAX evaluates them. `values` has the position among the values for each addend, by its stage and number,
    of an array; for one that is a vector of the entries at its points already, `~position`.
    """
    known: dict[int, int] = {}
    arrays: list[Any] = []

    def listed(array: Any) -> int | None:
        if array is None:
            return None
        if id(array) not in known:
            known[id(array)] = len(arrays)
            arrays.append(array)
        return known[id(array)]

    order = {stage.name: k for k, stage in enumerate(stages)}
    steps = []
    for stage in stages:
        reads = []
        for k, addend in enumerate(stage.addends):
            value = values.get((stage.name, k))
            places = addend.places if value is not None and value >= 0 else ()
            source = None if addend.source is None else order[addend.source]
            at = tuple([p for place in places if (p := listed(place)) is not None])
            reads.append(Read(source, listed(addend.position), value, at, listed(addend.slot)))
        steps.append(Step(stage.entries.count, tuple(reads)))
    with keeping_float64(False):
        return Evaluation(tuple(steps), tuple([jnp.asarray(a, np.int32) for a in arrays]))


def evaluated(how: Evaluation, values: Sequence[Any], dtype: Any, double: bool) -> Any:
    """The values of the last stage's entries."""
    with keeping_float64(double):
        return _run(how.steps, np.dtype(dtype), tuple(values), how.indices)


@functools.partial(jax.jit, static_argnums=(0, 1))
def _run(steps: tuple[Step, ...], dtype: Any, values: Sequence[Any], indices: Sequence[Any]) -> Any:
    made: list[Any] = []
    for count, reads in steps:
        total: Any = None
        for source, position, value, places, slot in reads:
            part: Any = None if source is None else made[source]
            if position is not None:
                part = part[indices[position]]
            if value is not None:
                factor = values[value] if value >= 0 else values[~value]
                factor = factor[tuple([indices[k] for k in places])] if places else factor
                part = factor if part is None else part * factor
            if part is None:
                part = jnp.ones((), dtype)
            if slot is None:
                part = jnp.broadcast_to(part, (count,))
                total = part if total is None else total + part
                continue
            before = jnp.zeros(count, dtype) if total is None else total
            total = before.at[indices[slot]].add(part, indices_are_sorted=True)
        made.append(jnp.zeros(count, dtype) if total is None else total)
    return made[-1]


def floating(
    parameters: Sequence[Parameter], arguments: Mapping[str, Any]
) -> tuple[bool, np.dtype[Any]]:
    """Whether a call computes with 64-bit types whatever JAX's default is, and its type of numbers."""
    kinds = [(p.name, p.type) for p in parameters]
    double = is_double(kinds, [arguments[x] for x, _ in kinds])
    with keeping_float64(double):
        real = [as_array(t, arguments[x]) for x, t in kinds if isinstance(t, Real | Array | Product)]
        return double, floating_type([leaf for value in real for leaf in leaves(value)])


def bcoo(rows: Any, columns: Any, values: Any, shape: tuple[int, int]) -> Any:
    """JAX's sparse array of some entries, in row-major order and none twice."""
    from jax.experimental.sparse import BCOO

    indices = jnp.stack([jnp.asarray(rows), jnp.asarray(columns)], axis=1)
    return BCOO((values, indices), shape=shape, indices_sorted=True, unique_indices=True)
