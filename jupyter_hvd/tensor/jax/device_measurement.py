"""The figures of a device by which kernels are planned, measured in a quarter of a minute (`jupyter hvd device-profile`).

Each is the slope between two sizes, so that only `launch` contains the cost of a call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import date
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax

from ..lowering.device import Device, device_of
from .precision import keeping_float64
from .timing import median

RUNS = 7


@dataclass(frozen=True)
class Sizes:
    """So large that a device is busy: the entries of an array, the side of a square matrix."""

    entries: int
    side: int


SIZES = Sizes(1 << 26, 4096)
SIZES_OF_CPU = Sizes(1 << 22, 512)


@dataclass(frozen=True)
class Figure:
    """One that was measured, or why it was not; `done` of `count` are known."""

    name: str
    value: float | None
    why: str
    done: int
    count: int


def measure_device(progress: Callable[[Figure], None] = lambda _: None) -> Device:
    """The profile of JAX's first device: its figures measured, its strategies those of the profile that it has now.

    A figure that the device cannot give, such as doubles on some accelerators, stays as it is.
    """
    device = jax.devices()[0]
    before = device_of(device.platform, device.device_kind)
    found: dict[str, float] = {}
    for figure in measure_figures(SIZES_OF_CPU if device.platform == "cpu" else SIZES):
        progress(figure)
        if figure.value is not None:
            found[figure.name] = figure.value
    profile = {
        **asdict(before),
        **{name: value for name, value in found.items() if "." not in name},
        "name": device.device_kind,
        "platform": device.platform,
        "kinds": (device.device_kind,),
        "source": f"jupyter hvd device-profile, JAX {jax.__version__}, {date.today().isoformat()}",
        "memory": float((device.memory_stats() or {}).get("bytes_limit", before.memory)),
        "flops": _by_type(found, "flops", before.flops),
        "products": _by_type(found, "products", before.products),
    }
    return Device.of(profile)


def measure_figures(sizes: Sizes) -> Iterator[Figure]:
    """The figures, the most important first. A part after a dot is the type of numbers."""
    measures = _measures(sizes)
    for done, (name, measure) in enumerate(measures.items(), 1):
        value, why = None, ""
        try:
            with keeping_float64(True):
                value = float(f"{measure():.3g}")
        except Exception as error:  # what a device cannot do
            why = str(error)[:200]
        yield Figure(name, value, why, done, len(measures))


def _by_type(
    found: Mapping[str, float], name: str, before: Mapping[str, float]
) -> Mapping[str, float]:
    return {dtype: found.get(f"{name}.{dtype}", rate) for dtype, rate in before.items()}


def _measures(sizes: Sizes) -> Mapping[str, Callable[[], float]]:
    return {
        "launch": _launch,
        "kernel": _kernel,
        "iteration": _iteration,
        "bytes_per_second": lambda: _bytes_per_second(sizes),
        "flops.float32": lambda: _multiply_adds(sizes, jnp.float32),
        "flops.float64": lambda: _multiply_adds(sizes, jnp.float64),
        "products.float16": lambda: _products(sizes, jnp.bfloat16),
        "products.float32": lambda: _products(sizes, jnp.float32),
        "products.float64": lambda: _products(sizes, jnp.float64),
        "calls_per_second": lambda: _calls(sizes, jnp.float32, lambda x: jnp.exp(-x)),
        "gather": lambda: _by_entry(
            sizes, lambda x, i: x[i], lambda n: (_numbers(n), _shuffled(n))
        ),
        "scatter": lambda: _by_entry(
            sizes, lambda x, i: x.at[i].add(x), lambda n: (_numbers(n), _shuffled(n))
        ),
        "running_sum": lambda: _by_entry(sizes, jnp.cumsum, lambda n: (_numbers(n),)),
    }


def _seconds(function: Callable[..., Any], *arguments: Any) -> float:
    compiled = jax.jit(function)
    compiled(*arguments)
    return median(lambda: compiled(*arguments), RUNS)


def _slope(made: Callable[[int], tuple[Any, ...]], few: int, many: int) -> float:
    """Seconds for each unit between two sizes; `made` gives a function and its arguments."""
    more = _seconds(*made(many)) - _seconds(*made(few))
    if more <= 0:
        raise ValueError("too noisy: the larger of two sizes was the faster one")
    return more / (many - few)


def _launch() -> float:
    return _seconds(lambda x: x + 1, jnp.ones(1, jnp.float32))


def _kernel() -> float:
    """Of one more reduction, which the next one needs."""

    def made(count: int) -> tuple[Any, ...]:
        def chain(x: Any) -> Any:
            for _ in range(count):
                x = x - 0.5 * x.max()
            return x

        return chain, jnp.linspace(0, 1, 4096, dtype=jnp.float32)

    return _slope(made, 10, 60)


def _iteration() -> float:
    """Of `lax.scan` with 64 numbers carried."""

    def made(count: int) -> tuple[Any, ...]:
        def turn(carry: Any, _: Any) -> tuple[Any, None]:
            return 0.5 * carry + 1, None

        return lambda c: lax.scan(turn, c, None, count), jnp.zeros(64, jnp.float32)

    return _slope(made, 500, 2000)


def _bytes_per_second(sizes: Sizes) -> float:
    def made(n: int) -> tuple[Any, ...]:
        return lambda x: x + 1, jnp.ones(n, jnp.float32)

    return 8 / _slope(made, sizes.entries // 4, sizes.entries)


def _products(sizes: Sizes, dtype: Any) -> float:
    """Operations in a second, at JAX's default precision."""

    def made(n: int) -> tuple[Any, ...]:
        a = jax.random.normal(jax.random.PRNGKey(0), (sizes.side, n), dtype)
        return lambda a: a @ a.T, a

    return 2 * sizes.side**2 / _slope(made, sizes.side // 2, 2 * sizes.side)


def _multiply_adds(sizes: Sizes, dtype: Any) -> float:
    return 2 * _calls(sizes, dtype, lambda x: x * 0.999 + 0.001)


def _calls(sizes: Sizes, dtype: Any, function: Callable[[Any], Any]) -> float:
    n = sizes.entries // 4

    def made(count: int) -> tuple[Any, ...]:
        def repeated(x: Any) -> Any:
            for _ in range(count):
                x = function(x)
            return x

        return repeated, jnp.linspace(0, 1, n, dtype=dtype)

    return n / _slope(made, 64, 256)


def _by_entry(
    sizes: Sizes, function: Callable[..., Any], arguments: Callable[[int], tuple[Any, ...]]
) -> float:
    return _slope(lambda n: (function, *arguments(n)), sizes.entries // 32, sizes.entries // 8)


def _shuffled(n: int) -> Any:
    return jax.random.randint(jax.random.PRNGKey(1), (n,), 0, n)


def _numbers(n: int) -> Any:
    return jax.random.uniform(jax.random.PRNGKey(0), (n,), jnp.float32)
