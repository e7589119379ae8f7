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
from .timing import median_seconds

RUNS = 7


@dataclass(frozen=True)
class MeasuredSizes:
    """Sizes at which a device is busy: the entries of an array, the side of a square matrix."""

    entries: int
    side: int


SIZES = MeasuredSizes(1 << 26, 4096)
SIZES_OF_CPU = MeasuredSizes(1 << 22, 512)


@dataclass(frozen=True)
class Figure:
    """One figure of a device, or why it was not measured; `done` of `count` figures are known."""

    name: str
    value: float | None
    why: str
    done: int
    count: int


def measure_device(progress: Callable[[Figure], None] = lambda _: None) -> Device:
    """Return the profile of JAX's first device, with its figures measured and the strategies of its present profile.

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
        "flops": _rates_by_dtype(found, "flops", before.flops),
        "products": _rates_by_dtype(found, "products", before.products),
    }
    return Device.of(profile)


def measure_figures(sizes: MeasuredSizes) -> Iterator[Figure]:
    """Yield the figures, the most important first. A part of a name after a dot is the dtype."""
    measures = _measures(sizes)
    for done, (name, measure) in enumerate(measures.items(), 1):
        value, why = None, ""
        try:
            with keeping_float64(True):
                value = float(f"{measure():.3g}")
        except Exception as error:  # what a device cannot do
            why = str(error)[:200]
        yield Figure(name, value, why, done, len(measures))


def _rates_by_dtype(
    found: Mapping[str, float], name: str, before: Mapping[str, float]
) -> Mapping[str, float]:
    """Return a rate for each dtype: the measured one, or the one before."""
    return {dtype: found.get(f"{name}.{dtype}", rate) for dtype, rate in before.items()}


def _measures(sizes: MeasuredSizes) -> Mapping[str, Callable[[], float]]:
    """Return the measurements by the names of their figures."""
    return {
        "launch": _measure_launch,
        "kernel": _measure_kernel,
        "iteration": _measure_iteration,
        "bytes_per_second": lambda: _measure_bandwidth(sizes),
        "flops.float32": lambda: _measure_flops(sizes, jnp.float32),
        "flops.float64": lambda: _measure_flops(sizes, jnp.float64),
        "products.float16": lambda: _measure_matrix_flops(sizes, jnp.bfloat16),
        "products.float32": lambda: _measure_matrix_flops(sizes, jnp.float32),
        "products.float64": lambda: _measure_matrix_flops(sizes, jnp.float64),
        "calls_per_second": lambda: _measure_calls(sizes, jnp.float32, lambda x: jnp.exp(-x)),
        "gather": lambda: _seconds_per_entry(
            sizes, lambda x, i: x[i], lambda n: (_random_numbers(n), _random_places(n))
        ),
        "scatter": lambda: _seconds_per_entry(
            sizes, lambda x, i: x.at[i].add(x), lambda n: (_random_numbers(n), _random_places(n))
        ),
        "running_sum": lambda: _seconds_per_entry(
            sizes, jnp.cumsum, lambda n: (_random_numbers(n),)
        ),
    }


def _median_seconds(function: Callable[..., Any], *arguments: Any) -> float:
    """Return the median seconds of a jitted function."""
    compiled = jax.jit(function)
    compiled(*arguments)
    return median_seconds(lambda: compiled(*arguments), RUNS)


def _seconds_per_unit(made: Callable[[int], tuple[Any, ...]], few: int, many: int) -> float:
    """Return the seconds for each unit between two sizes; `made` gives a function and its arguments for a size."""
    more = _median_seconds(*made(many)) - _median_seconds(*made(few))
    if more <= 0:
        raise ValueError("too noisy: the larger of two sizes was the faster one")
    return more / (many - few)


def _measure_launch() -> float:
    """Return the seconds of a call that does nearly nothing."""
    return _median_seconds(lambda x: x + 1, jnp.ones(1, jnp.float32))


def _measure_kernel() -> float:
    """Return the seconds of one more reduction that the next one depends on."""

    def make_chain(count: int) -> tuple[Any, ...]:
        """Return a chain of reductions, and its argument."""

        def chain(x: Any) -> Any:
            for _ in range(count):
                x = x - 0.5 * x.max()
            return x

        return chain, jnp.linspace(0, 1, 4096, dtype=jnp.float32)

    return _seconds_per_unit(make_chain, 10, 60)


def _measure_iteration() -> float:
    """Return the seconds of one iteration of `lax.scan` with 64 numbers carried."""

    def make_scan(count: int) -> tuple[Any, ...]:
        """Return a scan of so many iterations, and its argument."""

        def run_iteration(carry: Any, _: Any) -> tuple[Any, None]:
            return 0.5 * carry + 1, None

        return lambda c: lax.scan(run_iteration, c, None, count), jnp.zeros(64, jnp.float32)

    return _seconds_per_unit(make_scan, 500, 2000)


def _measure_bandwidth(sizes: MeasuredSizes) -> float:
    """Return the bytes per second of reading and writing an array."""

    def made(n: int) -> tuple[Any, ...]:
        return lambda x: x + 1, jnp.ones(n, jnp.float32)

    return 8 / _seconds_per_unit(made, sizes.entries // 4, sizes.entries)


def _measure_matrix_flops(sizes: MeasuredSizes, dtype: Any) -> float:
    """Return the operations per second of a matrix product, at JAX's default precision."""

    def made(n: int) -> tuple[Any, ...]:
        a = jax.random.normal(jax.random.PRNGKey(0), (sizes.side, n), dtype)
        return lambda a: a @ a.T, a

    return 2 * sizes.side**2 / _seconds_per_unit(made, sizes.side // 2, 2 * sizes.side)


def _measure_flops(sizes: MeasuredSizes, dtype: Any) -> float:
    """Return the operations per second of multiplying and adding entry by entry."""
    return 2 * _measure_calls(sizes, dtype, lambda x: x * 0.999 + 0.001)


def _measure_calls(sizes: MeasuredSizes, dtype: Any, function: Callable[[Any], Any]) -> float:
    """Return the evaluations per second of an elementwise function."""
    n = sizes.entries // 4

    def made(count: int) -> tuple[Any, ...]:
        def repeated(x: Any) -> Any:
            for _ in range(count):
                x = function(x)
            return x

        return repeated, jnp.linspace(0, 1, n, dtype=dtype)

    return n / _seconds_per_unit(made, 64, 256)


def _seconds_per_entry(
    sizes: MeasuredSizes, function: Callable[..., Any], arguments: Callable[[int], tuple[Any, ...]]
) -> float:
    """Return the seconds for each entry of a function of arrays; `arguments` makes them for a number of entries."""
    return _seconds_per_unit(
        lambda n: (function, *arguments(n)), sizes.entries // 32, sizes.entries // 8
    )


def _random_places(n: int) -> Any:
    """Return n random indices below n."""
    return jax.random.randint(jax.random.PRNGKey(1), (n,), 0, n)


def _random_numbers(n: int) -> Any:
    """Return n random float32 in [0, 1)."""
    return jax.random.uniform(jax.random.PRNGKey(0), (n,), jnp.float32)
