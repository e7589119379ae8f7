"""Times over a size: value and gradient at powers of two, and the exponents by which they grow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from ..tensor import TensorError, calls
from ..tensor.cost.statements import Sizes
from ..tensor.measure import LONG, fit_growth
from .background_work import MEASURED, Progress, count_entries
from .report import Times
from .subject import Size, Subject

FIRST = 4
REPEATS = 7


def sweep_sizes(
    subject: Subject,
    sizes: Sizes,
    size: Size,
    progress: Progress,
    step: Callable[[], None],
) -> Times:
    """Times over one size, or several that are equal, the others as they stand; `step` is called often and may raise."""
    from . import xla
    from .arguments import jax_precision, number_type

    if subject.missing_data:
        raise TensorError(subject.missing_data)
    found: list[tuple[int, float, float]] = []
    tried = list(wanted_sizes(subject, sizes, size))
    if not tried:
        raise TensorError(f"there is no size `{size.name}` at which this can be measured")
    with jax_precision(subject):
        for k, (n, here) in enumerate(tried):
            progress(k, len(tried))
            arguments = _make_arguments(subject, here)
            value, adjoint = _shortest_seconds(subject, here, arguments, step)
            found.append((n, value, adjoint))
            if max(value, adjoint) > LONG:
                break
        dtype = number_type(arguments)
    over, values, adjoints = zip(*found, strict=True)
    seconds = {"value": values, "adjoint": adjoints}
    return Times(
        size=size.name,
        at={x: n for x, n in sizes.items() if x not in size.names},
        device=xla.device_name(),
        dtype=dtype,
        sizes=over,
        seconds=seconds,
        growth={kind: fit_growth(over, found) for kind, found in seconds.items()},
    )


def wanted_sizes(
    subject: Subject, sizes: Sizes, size: Size
) -> Iterator[tuple[int, dict[str, int]]]:
    """The powers of two at which every read is in range and all arrays have room."""
    n = FIRST
    while n <= size.high:
        here = {**sizes, **dict.fromkeys(size.names, n)}
        if subject.fits_data(here) and count_entries(subject, here) <= MEASURED:
            yield n, here
        n *= 2


def _make_arguments(subject: Subject, sizes: Sizes) -> dict[str, Any]:
    from ..tensor.jax.sample_arguments import random_arguments

    return random_arguments(subject.adjoint_instance, sizes, subject.arguments)


def _shortest_seconds(
    subject: Subject, sizes: Sizes, arguments: Mapping[str, Any], step: Callable[[], None]
) -> tuple[float, float]:
    """The shortest of some calls of value and gradient, run in turn: what else the machine does makes none shorter."""
    from ..tensor.jax.timing import interleaved
    from .xla import compiled_kernel

    own = {x: arguments[x] for x, _ in subject.types}
    calls.check(subject.instance, own, sizes)
    step()
    value = compiled_kernel(subject.instance, sizes, own)
    step()
    adjoint = compiled_kernel(subject.adjoint_instance, sizes, arguments)
    times = interleaved((value, adjoint), REPEATS, step)
    first, second = map(min, times)
    return first, second
