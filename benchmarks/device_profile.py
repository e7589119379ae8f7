"""The constants of a device that decide which kernel is the faster one, measured in a quarter of a minute:

    python benchmarks/device_profile.py

prints them as JSON, most of what `jupyter_hvd/tensor/lowering/devices` has. Each is the slope between two sizes, so that only
`launch` contains the cost of a call.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

RUNS = 7
LARGE = 1 << 26 if jax.default_backend() != "cpu" else 1 << 22
SIDE = 4096 if jax.default_backend() != "cpu" else 512


def seconds(function: Callable[..., Any], *arguments: Any) -> float:
    """The median time of a jitted function, after two calls to compile it and to warm up."""
    run = jax.jit(function)
    for _ in range(2):
        jax.block_until_ready(run(*arguments))
    found = []
    for _ in range(RUNS):
        began = time.perf_counter()
        jax.block_until_ready(run(*arguments))
        found.append(time.perf_counter() - began)
    return statistics.median(found)


def slope(made: Callable[[int], tuple[Any, ...]], few: int, many: int) -> float:
    """Seconds for each unit between two sizes; `made` gives a function and its arguments."""
    return max(0.0, seconds(*made(many)) - seconds(*made(few))) / (many - few)


def launch() -> float:
    """Seconds of a call that computes nothing, until its result is there."""
    return seconds(lambda x: x + 1, jnp.ones(1, jnp.float32))


def queued() -> float:
    """Seconds of such a call where nobody waits for its result."""
    run, x = jax.jit(lambda x: x + 1), jnp.ones(1, jnp.float32)
    jax.block_until_ready(run(x))
    began = time.perf_counter()
    for _ in range(500):
        x = run(x)
    jax.block_until_ready(x)
    return (time.perf_counter() - began) / 500


def kernel() -> float:
    """Seconds of one more kernel in a call: of a reduction that the next one needs."""

    def made(count: int) -> tuple[Any, ...]:
        def chain(x: Any) -> Any:
            for _ in range(count):
                x = x - 0.5 * x.max()
            return x

        return chain, jnp.linspace(0, 1, 4096, dtype=jnp.float32)

    return slope(made, 10, 60)


def step(width: int = 64, rows: bool = False, reductions: int = 0) -> float:
    """Seconds of an iteration of `lax.scan` that carries `width` numbers and has so many `reductions`; with `rows`, it reads and
    writes a row, too.
    """

    def made(count: int) -> tuple[Any, ...]:
        def turn(carry: Any, row: Any) -> tuple[Any, Any]:
            carry = 0.5 * carry + (row if rows else 1)
            for _ in range(reductions):
                carry = carry - 0.5 * carry.max()
            return carry, carry if rows else None

        xs = jnp.ones((count, width), jnp.float32) if rows else None
        return lambda c, xs: lax.scan(turn, c, xs, count), jnp.zeros(width, jnp.float32), xs

    return slope(made, 500, 2000)


def streamed(dtype: Any) -> float:
    """Bytes read and written in a second."""
    width = jnp.dtype(dtype).itemsize

    def made(n: int) -> tuple[Any, ...]:
        return lambda x: x + 1, jnp.ones(n, dtype)

    return 2 * width / slope(made, LARGE // 4, LARGE)


def multiplied(dtype: Any) -> float:
    """Operations in a second of a product of matrices, at JAX's default precision."""

    def made(n: int) -> tuple[Any, ...]:
        a = jax.random.normal(jax.random.PRNGKey(0), (SIDE, n), dtype)
        return lambda a: a @ a.T, a

    return 2 * SIDE**2 / slope(made, SIDE // 2, 2 * SIDE)


def computed(dtype: Any, function: Callable[[Any], Any]) -> float:
    """Applications of an elementary function in a second."""
    n = LARGE // 4

    def made(count: int) -> tuple[Any, ...]:
        def repeated(x: Any) -> Any:
            for _ in range(count):
                x = function(x)
            return x

        return repeated, jnp.linspace(0, 1, n, dtype=dtype)

    return n / slope(made, 64, 256)


def by_entry(function: Callable[..., Any], arguments: Callable[[int], tuple[Any, ...]]) -> float:
    """Seconds for each entry."""
    return slope(lambda n: (function, *arguments(n)), LARGE // 32, LARGE // 8)


def _shuffled(n: int) -> Any:
    return jax.random.randint(jax.random.PRNGKey(1), (n,), 0, n)


def _numbers(n: int) -> Any:
    return jax.random.uniform(jax.random.PRNGKey(0), (n,), jnp.float32)


def constants() -> Mapping[str, Callable[[], float]]:
    """What measures each constant, the most important first."""
    double = jnp.float64 if jax.config.jax_enable_x64 else jnp.float32
    return {
        "launch": launch,
        "queued": queued,
        "kernel": kernel,
        "step": step,
        "step_of_rows": lambda: step(rows=True),
        "step_of_4_reductions": lambda: step(reductions=4),
        "bytes_per_second": lambda: streamed(jnp.float32),
        "matmul_float32": lambda: multiplied(jnp.float32),
        "matmul_float64": lambda: multiplied(double),
        "matmul_bfloat16": lambda: multiplied(jnp.bfloat16),
        "flops_float32": lambda: 2 * computed(jnp.float32, lambda x: x * 0.999 + 0.001),
        "flops_float64": lambda: 2 * computed(double, lambda x: x * 0.999 + 0.001),
        "exp_float32": lambda: computed(jnp.float32, lambda x: jnp.exp(-x)),
        "exp_float64": lambda: computed(double, lambda x: jnp.exp(-x)),
        "gather": lambda: by_entry(lambda x, i: x[i], lambda n: (_numbers(n), _shuffled(n))),
        "scatter": lambda: by_entry(
            lambda x, i: x.at[i].add(x), lambda n: (_numbers(n), _shuffled(n))
        ),
        "scatter_sorted": lambda: by_entry(
            lambda x, i: jnp.zeros_like(x).at[i].add(x, indices_are_sorted=True),
            lambda n: (_numbers(n), jnp.sort(_shuffled(n))),
        ),
        "scatter_to_few": lambda: by_entry(
            lambda x, i: jnp.zeros(64, x.dtype).at[i].add(x),
            lambda n: (_numbers(n), _shuffled(n) % 64),
        ),
        "sort": lambda: by_entry(jnp.sort, lambda n: (_numbers(n),)),
        "cumsum": lambda: by_entry(jnp.cumsum, lambda n: (_numbers(n),)),
        "cumsum_of_rows": lambda: by_entry(
            lambda x: jnp.cumsum(x, 0), lambda n: (_numbers(n).reshape(-1, 256),)
        ),
        "associative_scan": lambda: by_entry(
            lambda x: lax.associative_scan(jnp.add, x), lambda n: (_numbers(n),)
        ),
        "associative_scan_of_4x4": lambda: (
            16
            * by_entry(
                lambda x: lax.associative_scan(lambda a, b: b @ a, x.reshape(-1, 4, 4) / 4),
                lambda n: (_numbers(n),),
            )
        ),
    }


def measured() -> dict[str, Any]:
    """The device, its memory in bytes, and the constants that it takes to predict a kernel's time."""
    device = jax.devices()[0]
    found: dict[str, Any] = {
        "device": device.device_kind,
        "platform": device.platform,
        "jax": jax.__version__,
        "memory": (device.memory_stats() or {}).get("bytes_limit", 0),
    }
    with jax.enable_x64(True) if hasattr(jax, "enable_x64") else jax.experimental.enable_x64():
        for name, measure in constants().items():
            try:
                found[name] = float(f"{measure():.4g}")
            except Exception as error:  # one that a device cannot do
                found[f"{name}, not measured"] = str(error)[:200]
    return found


if __name__ == "__main__":
    print(json.dumps(measured(), indent=1))
