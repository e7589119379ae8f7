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


def number_type(subject: Subject, arguments: Mapping[str, Any]) -> str:
    """The type of the numbers that a call with some arguments computes in."""
    real = [arguments[x] for x in subject.differentiable_names]
    return str(floating_type(jax.tree_util.tree_leaves(real)))


def real_arguments(subject: Subject, arguments: Mapping[str, Any]) -> list[Any]:
    """Those of the real parameters, tuples as nested pairs."""
    types = dict(subject.types)
    pairs = [as_nested_pairs(types[x], arguments[x]) for x in subject.differentiable_names]
    return [jax.tree_util.tree_map(jnp.asarray, each) for each in pairs]


# Compiled calls


def estimate_cost(function: Callable[..., Any], shapes: Sequence[Any]) -> Estimate | None:
    """XLA's estimate after its own optimisations; None where it gives none."""
    compiled = function.lower(*shapes).compile()  # type: ignore[attr-defined]
    flops, _ = xla_estimates(compiled)
    return None if flops is None else Estimate(float(flops), temporary_bytes(compiled))


def compile_call(function: Callable[..., Any], arguments: Sequence[Any]) -> Callable[[], Any]:
    """A call that is compiled beforehand, for real arguments."""
    run = jax.jit(function).lower(*arguments).compile()
    return partial(run, *arguments)


def compile_kernels(
    subject: Subject, sizes: Sizes, arguments: Mapping[str, Any]
) -> list[Callable[[], Any]]:
    """Calls of the kernels of value and gradient."""
    return [_compile_kernel(part, sizes, given) for part, given in subject.programs(arguments)]


def _compile_kernel(
    instance: Instance, sizes: Sizes, arguments: Mapping[str, Any]
) -> Callable[[], Any]:
    made, given = kernel(instance, sizes), tuple(arguments.values())
    with keeping_float64(is_double(made.kinds, given)):
        return compile_call(made.run, made.operands(given))


def device_name() -> str:
    return str(jax.devices()[0].device_kind)
