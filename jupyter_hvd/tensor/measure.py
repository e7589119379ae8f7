"""How costs and times grow: measured at doubled sizes until a call is long, and fitted by a power of the size."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from .language.errors import TensorError

#: Sizes grow until a call takes as long as this, in seconds, or an array has as many entries.
LONG, LARGE = 0.2, 20_000_000
#: Shorter calls measure what calling costs, in seconds.
SHORT = 2e-4
#: An exponent is fitted to so many points at least; more than `MOST` are no better.
LEAST, MOST = 3, 5
#: Calls of which the median is taken.
CALLS = 5
#: What any call takes, whatever its sizes, is no more than this part of a time that shows how times grow.
OVERHEAD = 1 / 3
#: The correlation of times and sizes, on logarithmic axes, from which on they are a power of one another.
STRAIGHT = 0.98

Point = TypeVar("Point")


@dataclass(frozen=True)
class Growth:
    """Seconds grow like the size to the power `exponent`, from the size `since` on."""

    exponent: float
    since: int


def measure_doubled(
    measure: Callable[[int], Point | None], is_long: Callable[[Point], bool]
) -> list[Point]:
    """Measure at sizes multiplied by 1, 2, 4, ….

    Args:
        measure: at a factor; None where that is too large.
        is_long: whether a point is the last.

    Raises:
        TensorError: by `measure`, at the first factor; a later one ends the measurement.
    """
    points: list[Point] = []
    while not points or not is_long(points[-1]):
        try:
            found = measure(2 ** len(points))
        except TensorError:
            if not points:
                raise
            break
        if found is None:
            break
        points.append(found)
    return points


def fit_exponent(across: Sequence[float], up: Sequence[float]) -> float | None:
    """The power of `across` that `up` grows by: the slope of a line on logarithmic axes, by least squares.

    None where a number is not positive, or there are not two different ones across.
    """
    if min((*across, *up), default=0) <= 0 or len({*across}) < 2:
        return None
    return statistics.linear_regression(*map(_logarithms, (across, up))).slope


def fit_exponents(
    across: Sequence[float], pairs: Sequence[tuple[float, float]]
) -> tuple[float, float] | None:
    """The exponents of two figures; None where `fit_exponent` knows one of them not, or too few points tell."""
    if len({*across}) < LEAST:
        return None
    first, second = (fit_exponent(across, up) for up in zip(*pairs, strict=True))
    return None if first is None or second is None else (first, second)


def fit_doubled(pairs: Sequence[tuple[float, float]]) -> tuple[float, float] | None:
    """The exponents of two figures, each at twice the sizes of those before, by the last of them."""
    last = pairs[-MOST:]
    return fit_exponents([2.0**k for k in range(len(last))], last)


def fit_growth(sizes: Sequence[int], seconds: Sequence[float]) -> Growth | None:
    """How what exceeds a call's own time grows: a slope on logarithmic axes, from where on all times are mostly work. None
    where these are too few, or lie on no line, as on a machine that does something else.
    """
    overhead = min(seconds)
    first = 1 + max(k for k, t in enumerate(seconds) if overhead > OVERHEAD * t)
    across, work = sizes[first:], [t - overhead for t in seconds[first:]]
    if len(work) < LEAST:
        return None
    slope = fit_exponent(across, work)
    if slope is None or statistics.correlation(*map(_logarithms, (across, work))) < STRAIGHT:
        return None
    return Growth(round(slope, 2), across[0])


def _logarithms(values: Sequence[float]) -> list[float]:
    return [math.log(value) for value in values]
