"""Times over a size: value and gradient at powers of two, and the exponents by which they grow."""

from __future__ import annotations

from ..tensor import TensorError
from ..tensor.cost.statements import Sizes
from ..tensor.measure import LONG, fit_growth
from .background_work import MEASURED, Progress, Step, count_entries
from .report import Times
from .subject import Size, Subject

POWERS = tuple(1 << k for k in range(2, 21))
REPEATS = 7


def sweep_sizes(
    subject: Subject,
    sizes: Sizes,
    size: Size,
    progress: Progress,
    step: Step,
) -> Times:
    """Times over one size, or several that are equal, the others as they stand."""
    from ..tensor.jax.timing import interleaved
    from . import xla
    from .arguments import jax_precision, make_arguments, number_type

    if subject.missing_data:
        raise TensorError(subject.missing_data)
    found: list[tuple[int, float, float]] = []
    over_size = subject.sizes_over(size, sizes, POWERS)
    tried = [point for point in over_size if count_entries(subject, point[1]) <= MEASURED]
    if not tried:
        raise TensorError(f"there is no size `{size.name}` at which this can be measured")
    with jax_precision(subject):
        for k, (n, here) in enumerate(tried):
            progress(k, len(tried))
            step()
            arguments = make_arguments(subject, here, is_random=True)
            kernels = xla.compile_kernels(subject, here, arguments)
            # The shortest: what else the machine does makes none shorter.
            value, adjoint = map(min, interleaved(kernels, REPEATS, step))
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
