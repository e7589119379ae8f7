"""Functions compiled by XLA: arguments to run them with, and XLA's estimates of flops and bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from ..tensor import calls
from ..tensor.cost.statements import Sizes
from ..tensor.instance import Instance
from ..tensor.jax.arguments import as_nested_pairs, floating_type
from ..tensor.jax.backend import kernel
from ..tensor.jax.precision import is_double, keeping_float64
from ..tensor.jax.profile import temporary_bytes, xla_estimates
from ..tensor.jax.sample_arguments import random_arguments
from .report import Estimate
from .subject import Subject

# Arguments


def jax_precision(subject: Subject) -> AbstractContextManager[Any]:
    """Return a context in which JAX uses the precision of a call with the subject's arguments."""
    if subject.arguments is None:
        return nullcontext()
    return keeping_float64(is_double(subject.types, tuple(subject.arguments.values())))


def make_arguments(subject: Subject, sizes: Sizes, is_random: bool = False) -> dict[str, Any]:
    """Return arguments of the gradient at some sizes: the subject's own at its own sizes, else random ones.

    Args:
        is_random: use random arguments at all sizes.

    Raises:
        TensorError: with these a read is out of range.
    """
    arguments = random_arguments(subject.adjoint_instance, sizes, subject.arguments)
    if not is_random and subject.arguments is not None and dict(sizes) == dict(subject.start):
        arguments |= subject.arguments
    calls.check(subject.instance, subject.own_arguments(arguments), sizes)
    return arguments


def number_type(subject: Subject, arguments: Mapping[str, Any]) -> str:
    """Return the dtype in which a call with these arguments computes."""
    real = [arguments[x] for x in subject.differentiable_names]
    return str(floating_type(jax.tree_util.tree_leaves(real)))


def real_arguments(subject: Subject, arguments: Mapping[str, Any]) -> list[Any]:
    """Return the real arguments as JAX arrays, with tuples as nested pairs."""
    types = dict(subject.types)
    pairs = [as_nested_pairs(types[x], arguments[x]) for x in subject.differentiable_names]
    return [jax.tree_util.tree_map(jnp.asarray, each) for each in pairs]


# Compiled calls


def estimate_cost(function: Callable[..., Any], shapes: Sequence[Any]) -> Estimate | None:
    """Return XLA's estimate after its optimizations; None if it has none. Compiles the function."""
    compiled = function.lower(*shapes).compile()  # type: ignore[attr-defined]
    flops, _ = xla_estimates(compiled)
    return None if flops is None else Estimate(float(flops), temporary_bytes(compiled))


def compile_call(function: Callable[..., Any], arguments: Sequence[Any]) -> Callable[[], Any]:
    """Compile a function for these arguments, and return it as a call without arguments."""
    run = jax.jit(function).lower(*arguments).compile()
    return partial(run, *arguments)


def compile_kernels(
    subject: Subject, sizes: Sizes, arguments: Mapping[str, Any]
) -> list[Callable[[], Any]]:
    """Compile the kernels of value and gradient, and return them as calls without arguments."""
    return [_compile_kernel(part, sizes, given) for part, given in subject.programs(arguments)]


def _compile_kernel(
    instance: Instance, sizes: Sizes, arguments: Mapping[str, Any]
) -> Callable[[], Any]:
    """Compile one kernel, and return it as a call without arguments."""
    made, given = kernel(instance, sizes), tuple(arguments.values())
    with keeping_float64(is_double(made.kinds, given)):
        return compile_call(made.run, made.operands(given))


def device_name() -> str:
    """Return the name of JAX's first device."""
    return str(jax.devices()[0].device_kind)
