"""Arguments to measure with."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import jax
import jax.numpy as jnp

from ..tensor import calls
from ..tensor.cost.statements import Sizes
from ..tensor.jax.precision import is_double, keeping_float64
from ..tensor.jax.sample_arguments import random_arguments
from ..tensor.language.types import Array, Product, Real
from .subject import Subject


def jax_precision(subject: Subject) -> AbstractContextManager[Any]:
    """The context in which JAX takes numbers as a call with the subject's arguments does."""
    if subject.arguments is None:
        return nullcontext()
    return keeping_float64(is_double(subject.types, tuple(subject.arguments.values())))


def make_arguments(subject: Subject, sizes: Sizes, is_random: bool = False) -> dict[str, Any]:
    """What the gradient is run with at some sizes: random numbers, or what the subject was called with, at its sizes.

    Args:
        is_random: random numbers at all sizes.

    Raises:
        TensorError: with these a read is out of range.
    """
    arguments = random_arguments(subject.adjoint_instance, sizes, subject.arguments)
    if not is_random and subject.arguments is not None and dict(sizes) == dict(subject.start):
        arguments |= subject.arguments
    calls.check(subject.instance, subject.own_arguments(arguments), sizes)
    return arguments


def number_type(arguments: Mapping[str, Any]) -> str:
    """The type of the numbers that a call with some arguments computes in: that of its real arrays."""
    leaves = jax.tree_util.tree_leaves(list(arguments.values()))
    given = [leaf.dtype for leaf in leaves if hasattr(leaf, "dtype")]
    real = [dtype for dtype in given if jnp.issubdtype(dtype, jnp.floating)]
    return str(jnp.result_type(*real) if real else jnp.result_type(float))


def real_arguments(subject: Subject, arguments: Mapping[str, Any]) -> list[Any]:
    """Those of the real parameters, tuples as nested pairs."""

    def relation_pairs(type_: Any, value: Any) -> Any:
        if isinstance(type_, Product):
            rest = value[1:] if len(value) > 2 else value[1]
            return relation_pairs(type_.first, value[0]), relation_pairs(type_.second, rest)
        return jnp.asarray(value)

    return [
        relation_pairs(t, arguments[x])
        for x, t in subject.types
        if isinstance(t, Real | Array | Product)
    ]
