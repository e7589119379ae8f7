"""XLA's compiled code of a function, and its estimates of flops and bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import jax

from ..tensor.cost.statements import Sizes
from ..tensor.instance import Instance
from ..tensor.jax.backend import kernel
from ..tensor.jax.precision import is_double, keeping_float64
from ..tensor.jax.profile import temporary_bytes, xla_estimates
from .report import Estimate
from .subject import Subject


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
