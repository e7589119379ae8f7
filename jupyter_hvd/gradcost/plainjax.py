"""Plain JAX's derivative of a function: `jax.grad` of the same program in dense arrays, or of the
user's own version. That is what the language's sparsity and derivatives are compared with.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp

from ..tensor.cost.statements import Sizes
from ..tensor.jax.dense import Dense
from ..tensor.language.pairs import from_pairs
from ..tensor.language.types import Array, Product, Real, dimensions
from .subject import Subject


@dataclass(frozen=True, eq=False)
class Both:
    """The value and its gradient as compiled JAX functions, with abstract arguments to lower them."""

    value: Callable[..., Any]
    adjoint: Callable[..., Any]
    shapes: tuple[Any, ...]


def plain_jax(subject: Subject, sizes: Sizes) -> Both:
    """Plain JAX's value and gradient at these sizes: of `--against` where it is given."""
    real = [(x, t) for x, t in subject.types if isinstance(t, Real | Array | Product)]
    shapes = tuple(_array_shape(t, sizes) for _, t in real)
    value = (
        _translate_program(subject, sizes)
        if subject.against is None
        else _own_version(subject, sizes)
    )
    by = tuple(k for k, (x, _) in enumerate(real) if x in subject.wrt)
    if subject.is_scalar:
        adjoint: Callable[..., Any] = jax.grad(value, by)
    else:

        def adjoint(*arrays: Any) -> Any:
            result, pull = jax.vjp(
                lambda *moved: value(*_place_arrays(arrays, by, moved)), *(arrays[k] for k in by)
            )
            return pull(jax.tree_util.tree_map(jnp.ones_like, result))

    return Both(jax.jit(value), jax.jit(adjoint), shapes)


def _place_arrays(
    arrays: tuple[Any, ...], by: tuple[int, ...], moved: tuple[Any, ...]
) -> list[Any]:
    placed = list(arrays)
    for k, array in zip(by, moved, strict=True):
        placed[k] = array
    return placed


def _own_version(subject: Subject, sizes: Sizes) -> Callable[..., Any]:
    """The user's JAX version, called like the tensor function."""
    kinds = subject.types

    def value(*arrays: Any) -> Any:
        remaining = iter(arrays)
        arguments = []
        for x, t in kinds:
            if isinstance(t, Real | Array | Product):
                arguments.append(from_pairs(next(remaining), _parameter_layout(subject, x)))
            elif x in sizes:
                arguments.append(sizes[x])
            else:
                assert subject.arguments is not None
                arguments.append(subject.arguments[x])
        return subject.against(*arguments)

    return value


def _parameter_layout(subject: Subject, name: str) -> Any:
    return next(layout for x, _, layout in subject.instance.parameters if x == name)


def _array_shape(type_: Any, sizes: Sizes) -> Any:
    if isinstance(type_, Product):
        return _array_shape(type_.first, sizes), _array_shape(type_.second, sizes)
    dims = tuple(n.evaluate(sizes) for n in dimensions(type_))
    return jax.ShapeDtypeStruct(dims, jnp.result_type(float))


def _translate_program(subject: Subject, sizes: Sizes) -> Callable[..., Any]:
    """The program as a function of its real parameters in order, by JAX operations alone."""
    relations = {x: (data.type, data.array) for x, data in subject.data.items()}
    translation = Dense(sizes, relations)
    names = subject.differentiable_names

    def run(*arrays: Any) -> Any:
        return translation.block(subject.normal, dict(zip(names, arrays, strict=True)))

    return run
