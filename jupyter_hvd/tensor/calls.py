"""One call of a tensor function at given types: checked, compiled for its sizes, or interpreted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .frontend.bounds import Read, check_call, undecided
from .frontend.signature import environment
from .instance import Instance
from .language.pairs import from_pairs, struct_of_arrays
from .memo import Kept
from .reference.evaluate import evaluate

Arguments = Mapping[str, Any]  # by name, in the order of the parameters
Sizes = Mapping[str, int]
Key = tuple[tuple[str, int], ...]
Shards = tuple[str, int | None]  # an index, and a number of devices to divide it among


def check(instance: Instance, arguments: Arguments, sizes: Sizes) -> None:
    """Raise TensorError where a read of the call is out of range."""
    pending = _undecided(instance, _key(sizes))
    check_call(instance.checked, pending, instance.parameters, arguments, sizes)


def run(instance: Instance, arguments: Arguments, sizes: Sizes, shards: Shards | None) -> Any:
    """The result by a compiled JAX kernel, laid out as the program returned it."""
    at = _key(sizes)
    kernel = compiled(instance, at) if shards is None else _sharded(instance, at, shards)
    return from_pairs(kernel(*arguments.values()), instance.layout)


def interpreted(instance: Instance, arguments: Arguments, sizes: Sizes) -> Any:
    """The result by the reference evaluator, laid out as the program returned it."""
    env = environment(instance.parameters, arguments, sizes)
    value = struct_of_arrays(evaluate(instance.function.body, env), instance.type)
    return from_pairs(_numpy(value), instance.layout)


@Kept
def compiled(instance: Instance, sizes: Key) -> Callable[..., Any]:
    """The compiled function at given sizes."""
    from .jax.backend import compiled

    return compiled(instance, dict(sizes))


@Kept
def _sharded(instance: Instance, sizes: Key, shards: Shards) -> Callable[..., Any]:
    from .jax.backend import sharded

    return sharded(instance, dict(sizes), *shards)


@Kept
def _undecided(instance: Instance, sizes: Key) -> tuple[Read, ...]:
    """The reads that only data can show in range."""
    return undecided(instance.checked, dict(sizes))


def _key(sizes: Sizes) -> Key:
    return tuple(sorted(sizes.items()))


def _numpy(value: Any) -> Any:
    if isinstance(value, tuple):
        return _numpy(value[0]), _numpy(value[1])
    if not isinstance(value, list):
        return value
    array = np.array(value, dtype=object)
    exact = any(not isinstance(x, int | float) for x in array.flat)
    return array if exact else array.astype(float)
