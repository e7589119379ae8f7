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
    """Return an argument of a type as JAX takes it: a set of tuples as sorted int32 rows, an integer as `()`, a tuple as a
    tuple of arrays.
    """
    return conversion_to(type_)(value)


def conversion_to(type_: Any) -> Callable[[Any], Any]:
    """Return the function that makes arguments of a type arrays, as `as_array` does."""
    if isinstance(type_, Integer):
        return _discard_value
    if isinstance(type_, TupleSet):
        return partial(_as_rows, type_.arity)
    return _as_arrays


def _discard_value(_value: Any) -> tuple[()]:
    """Convert an integer: its value is part of the compiled program, so nothing is passed."""
    return ()


def _as_rows(arity: int, value: Any) -> Any:
    """Return a set of tuples as an int32 array with one sorted row for each."""
    return sort_tuples(value, arity).astype(np.int32)


def _as_arrays(value: Any) -> Any:
    """Return an argument that is neither a set nor an integer as an array, or as a tuple of arrays; a tuple of one part is
    that part.
    """
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


def as_nested_pairs(type_: Any, value: Any) -> Any:
    """Return a tuple as nested pairs, the form that the product type has."""
    if isinstance(type_, Product):
        first, rest = split_tuple(value)
        return as_nested_pairs(type_.first, first), as_nested_pairs(type_.second, rest)
    return value


def flat_arrays(value: Any) -> list[Any]:
    """Return the arrays in a tuple of tuples, or the one array, as a list."""
    return (
        [leaf for part in value for leaf in flat_arrays(part)]
        if isinstance(value, tuple)
        else [value]
    )


def dtype_and_weakness(value: Any) -> Any:
    """Return the dtype of a number or an array, and whether it is weakly typed: what `floating_type` depends on."""
    return getattr(value, "dtype", type(value)), getattr(value, "weak_type", False)


def floating_type(reals: Sequence[Any]) -> np.dtype[Any]:
    """Return the floating dtype in which a call with these real arguments is computed."""
    together = jnp.result_type(*reals) if reals else jnp.result_type(float)
    chosen: np.dtype[Any] = np.dtype(
        together if jnp.issubdtype(together, jnp.floating) else jnp.result_type(float)
    )
    return chosen


def cache_key(arguments: Sequence[Any]) -> tuple[Hashable, tuple[int, ...]]:
    """Return a key by which the checks and the kernel of a call can be reused, and the positions that count by identity.

    Floating arrays count by shape and dtype. Immutable integer and boolean arrays and sets count by identity; of sets that are
    not frozen the caller compares the contents. Returns (None, ()) if an argument may change otherwise.
    """
    found = []
    for value in arguments:
        if (what := _argument_key(value)) is None:
            return None, ()
        found.append(what)
    relations = tuple([k for k, what in enumerate(found) if type(what) is int])
    return (jax.config.jax_enable_x64, *found), relations


def _argument_key(value: Any) -> Hashable:
    """Return the part of the key for one argument: a tuple by type, an `id` by identity, or None if it may change."""
    kind = type(value)
    if _IMMUTABLE.get(kind):
        aval = value.aval  # whose attributes take a quarter of the array's time
        floats = aval.dtype.kind in "fV"  # V: bfloat16 and its like
        return (aval.shape, aval.dtype, aval.weak_type) if floats else id(value)
    if kind is tuple or kind is Laid:
        found = [value.form if kind is Laid else None]
        for part in value:
            what = _argument_key(part)
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
        return _argument_key(value) if _IMMUTABLE[kind] else None
    return None


_IMMUTABLE: dict[type, bool] = {}  # whether a type is that of JAX's arrays
