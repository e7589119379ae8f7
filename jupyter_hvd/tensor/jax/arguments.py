"""Arguments as JAX takes them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ..cost.counting import sort_tuples
from ..language.pairs import Laid, split_tuple
from ..language.types import Integer, Product, TupleSet


def as_array(type_: Any, value: Any) -> Any:
    """An argument of the given type: a set of tuples as 32-bit rows in order, `()` for an integer, a
    tuple of arrays for a tuple.
    """
    return conversion_to(type_)(value)


def conversion_to(type_: Any) -> Callable[[Any], Any]:
    """What makes arguments of a type arrays, as `as_array` does."""
    if isinstance(type_, Integer):
        return _without_value
    if isinstance(type_, TupleSet):
        return partial(_as_rows, type_.arity)
    return _as_arrays


def _without_value(_value: Any) -> tuple[()]:
    return ()


def _as_rows(arity: int, value: Any) -> Any:
    return sort_tuples(value, arity).astype(np.int32)


def _as_arrays(value: Any) -> Any:
    """An argument that is no set and no integer: a tuple of one part is that part."""
    if _IMMUTABLE.get(type(value)):
        return value
    if isinstance(value, tuple):
        if len(value) == 1:
            return _as_arrays(value[0])
        return tuple([_as_arrays(part) for part in value])
    if isinstance(value, list):
        value = np.array(value)
    if isinstance(value, np.ndarray | np.generic):
        if value.dtype.kind == "O":  # fractions
            return value.astype(float)
        return value.astype(value.dtype.newbyteorder("="), copy=False)
    return value


def nested(type_: Any, value: Any) -> Any:
    """A tuple as the nested pairs of its type."""
    if isinstance(type_, Product):
        first, rest = split_tuple(value)
        return nested(type_.first, first), nested(type_.second, rest)
    return value


def leaves(value: Any) -> list[Any]:
    """The arrays of a tuple, or the one array."""
    return (
        [leaf for part in value for leaf in leaves(part)] if isinstance(value, tuple) else [value]
    )


def kind_of(value: Any) -> Any:
    """What `floating_type` depends on."""
    return getattr(value, "dtype", type(value)), getattr(value, "weak_type", False)


def floating_type(reals: Sequence[Any]) -> np.dtype[Any]:
    """The floating type of real arguments together."""
    together = jnp.result_type(*reals) if reals else jnp.result_type(float)
    chosen: np.dtype[Any] = np.dtype(
        together if jnp.issubdtype(together, jnp.floating) else jnp.result_type(float)
    )
    return chosen


def lasting(arguments: Sequence[Any]) -> tuple[Hashable, tuple[int, ...]]:
    """What the checks of a call and its kernel depend on, as far as that stays: the types of arrays
    of floats; and the positions of JAX's arrays of integers and booleans and of sets, which count by identity. No one can change
    them, but for sets that are not frozen: of these the caller compares what they hold. None instead where an argument may change
    otherwise.
    """
    found = []
    for value in arguments:
        if (what := _lasting(value)) is None:
            return None, ()
        found.append(what)
    relations = tuple([k for k, what in enumerate(found) if type(what) is int])
    return (jax.config.jax_enable_x64, *found), relations


def _lasting(value: Any) -> Hashable:
    kind = type(value)
    if _IMMUTABLE.get(kind):
        aval = value.aval  # whose attributes take a quarter of the array's time
        floats = aval.dtype.kind in "fV"  # V: bfloat16 and its like
        return (aval.shape, aval.dtype, aval.weak_type) if floats else id(value)
    if kind is tuple or kind is Laid:
        found = [value.form if kind is Laid else None]
        for part in value:
            what = _lasting(part)
            if what is None or type(what) is int:
                return None
            found.append(what)
        return tuple(found)
    if value is None or kind is str or kind is bool:
        return kind, value
    if kind is int or kind is float:
        return kind, value if kind is int else None
    if kind is np.ndarray:
        floats = value.dtype.kind == "f" and value.dtype.isnative
        return (kind, value.shape, value.dtype) if floats else None
    if kind is frozenset or kind is set:
        return id(value)
    if kind not in _IMMUTABLE:
        _IMMUTABLE[kind] = isinstance(value, jax.Array) and not isinstance(value, jax.core.Tracer)
        return _lasting(value) if _IMMUTABLE[kind] else None
    return None


_IMMUTABLE: dict[type, bool] = {}  # whether a type is that of JAX's arrays
