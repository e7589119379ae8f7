"""Checks before a kernel runs that there is memory for it: XLA, or the system, would end the process otherwise."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax
import psutil

from ..language.errors import TensorError
from ..language.units import in_bytes
from ..lowering.plan import Plan

SMALL = 1 << 28  # bytes that are there
LIMIT = Path("/sys/fs/cgroup/memory.max")  # of the container


def require_memory(compiled: Any, plan: Plan | None = None) -> None:
    """Raise TensorError where a function that XLA has compiled needs more memory than there is."""
    needed, there = needed_bytes(compiled), free_bytes()
    if needed > there:
        raise TensorError(
            f"the result and the intermediate arrays take {in_bytes(needed)}, and {in_bytes(there)} "
            f"are available{f': {plan.describe_largest()}' if plan else ''}",
            "`print(f.plan(…))` shows every array and its bytes; sum what need not be returned in full",
        )


def check_memory(plan: Plan, run: Any) -> Callable[..., Any]:
    """Return a jitted function that raises TensorError if there is not the memory for its plan."""
    if plan.bound <= SMALL:
        return run  # type: ignore[no-any-return]
    compiled: list[Any] = []  # at most one, which `run` does not compile again

    def checked(*arrays: Any) -> Any:
        if may_exceed(plan) and not any(map(_is_abstract, jax.tree_util.tree_leaves(arrays))):
            if not compiled:
                compiled.append(run.lower(*arrays).compile())
            require_memory(compiled[0], plan)
        return run(*arrays)

    return checked


def _is_abstract(value: Any) -> bool:
    """Return whether a value is one of JAX's tracers."""
    return isinstance(value, jax.core.Tracer)


def may_exceed(plan: Plan) -> bool:
    """Return whether the arrays of a plan, none of them fused away, might take more memory than there is."""
    return plan.bound > SMALL and plan.bound > free_bytes()


def needed_bytes(compiled: Any) -> int:
    """Return the bytes that a compiled function allocates beside its arguments; 0 if XLA does not say."""
    with suppress(Exception):  # some platforms have no such analysis
        found = compiled.memory_analysis()
        return int(found.temp_size_in_bytes + found.output_size_in_bytes)
    return 0


def free_bytes() -> int:
    """Return the bytes that the first device has left; on a CPU, those of the system or its container."""
    device = jax.devices()[0]
    if device.platform != "cpu":
        found = device.memory_stats() or {}
        if "bytes_limit" in found:
            return int(found["bytes_limit"] - found.get("bytes_in_use", 0))
    there = int(psutil.virtual_memory().available)
    with suppress(OSError, ValueError):  # no container, or one without a limit
        there = min(there, int(LIMIT.read_text()) - int(psutil.Process().memory_info().rss))
    return there
