"""Measures costs and times at doubled sizes until a call takes long, and fits a power of the size."""

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
    """Seconds grow in proportion to size ** `exponent`, from the size `since` on."""

    exponent: float
    since: int


def measure_doubled(
    measure: Callable[[int], Point | None], is_long: Callable[[Point], bool]
) -> list[Point]:
    """Measure at sizes multiplied by 1, 2, 4, … until a point is the last.

    Args:
        measure: measures at a factor; returns None if that is too large.
        is_long: whether a point is the last.

    Raises:
        TensorError: from `measure` at the first factor; at a later factor it ends the measurement.
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
    """Fit the power of `across` with which `up` grows: the slope of a least-squares line on logarithmic axes.

    None where a number is not positive, or `across` has fewer than two distinct values.
    """
    if min((*across, *up), default=0) <= 0 or len({*across}) < 2:
        return None
    return statistics.linear_regression(*map(_take_logarithms, (across, up))).slope


def fit_exponents(
    across: Sequence[float], pairs: Sequence[tuple[float, float]]
) -> tuple[float, float] | None:
    """Fit the exponents of two figures; None where `fit_exponent` finds none, or there are too few points."""
    if len({*across}) < LEAST:
        return None
    first, second = (fit_exponent(across, up) for up in zip(*pairs, strict=True))
    return None if first is None or second is None else (first, second)


def fit_doubled(pairs: Sequence[tuple[float, float]]) -> tuple[float, float] | None:
    """Fit the exponents of two figures to their last values, at most `MOST`, at sizes that double each time.

    None for fewer than `LEAST` values, or where one is not positive.
    """
    last = pairs[-MOST:]
    return fit_exponents([2.0**k for k in range(len(last))], last)


def fit_growth(sizes: Sequence[int], seconds: Sequence[float]) -> Growth | None:
    """Fit how the time beyond a call's fixed overhead grows, and from which size on times are mostly work.

    None where there are too few of these times, or they lie on no line, as on a busy machine.
    """
    overhead = min(seconds)
    first = 1 + max(k for k, t in enumerate(seconds) if overhead > OVERHEAD * t)
    across, work = sizes[first:], [t - overhead for t in seconds[first:]]
    if len(work) < LEAST:
        return None
    slope = fit_exponent(across, work)
    if slope is None or statistics.correlation(*map(_take_logarithms, (across, work))) < STRAIGHT:
        return None
    return Growth(round(slope, 2), across[0])


def _take_logarithms(values: Sequence[float]) -> list[float]:
    """Return the natural logarithms of some numbers."""
    return [math.log(value) for value in values]
