"""Plain JAX's derivative of a function: `jax.grad` of the same program in dense arrays, or of the
user's own version. That is what the language's sparsity and derivatives are compared with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp

from ..tensor.cost.statements import Sizes
from ..tensor.jax.dense import Dense
from ..tensor.language.pairs import from_pairs
from ..tensor.language.types import Product, dimensions
from .subject import Subject


def plain_gradient(subject: Subject, sizes: Sizes) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return plain JAX's gradient at these sizes, jitted, and abstract arguments by which to lower it.

    It differentiates the user's `--against` function if there is one. For results that are not scalars it is the adjoint
    of ones.
    """
    names, types = subject.differentiable_names, dict(subject.types)
    compute = translate_program if subject.against is None else _own_version
    of_arrays = compute(subject, sizes)

    def total(*arrays: Any) -> Any:
        result = of_arrays(dict(zip(names, arrays, strict=True)))
        if subject.is_scalar:
            return result
        return sum(map(jnp.sum, jax.tree_util.tree_leaves(result)))

    by = tuple(k for k, x in enumerate(names) if x in subject.wrt)
    shapes = tuple(_array_shape(types[x], sizes) for x in names)
    return jax.jit(jax.grad(total, by)), shapes


def _own_version(subject: Subject, sizes: Sizes) -> Callable[[Mapping[str, Any]], Any]:
    """Return the user's JAX function, as a function of the real arguments by name."""
    known = {**(subject.arguments or {}), **sizes}

    def value(arrays: Mapping[str, Any]) -> Any:
        return subject.against(
            *(
                from_pairs(arrays[x], layout) if x in arrays else known[x]
                for x, _, layout in subject.instance.parameters
            )
        )

    return value


def _array_shape(type_: Any, sizes: Sizes) -> Any:
    """Return abstract arrays for a parameter's type at these sizes."""
    if isinstance(type_, Product):
        return _array_shape(type_.first, sizes), _array_shape(type_.second, sizes)
    dims = tuple(n.evaluate(sizes) for n in dimensions(type_))
    return jax.ShapeDtypeStruct(dims, jnp.result_type(float))


def translate_program(subject: Subject, sizes: Sizes) -> Callable[[Mapping[str, Any]], Any]:
    """Translate the program to dense JAX operations, as a function of its real arguments by name."""
    relations = {x: (data.type, data.array) for x, data in subject.data.items()}
    translation = Dense(sizes, relations)
    return lambda arrays: translation.compute_block(subject.normal, arrays)
