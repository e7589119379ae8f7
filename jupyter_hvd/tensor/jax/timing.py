"""How long functions take that run on devices."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np


def sample(run: Callable[[], Any], calls: int = 1) -> float:
    """Seconds a call, of some calls one after the other."""
    began = time.perf_counter()
    for _ in range(calls):
        jax.block_until_ready(run())
    return (time.perf_counter() - began) / calls


def median(run: Callable[[], Any], repeats: int) -> float:
    """The median of a function's seconds, after one call to compile it and to warm up."""
    sample(run)
    return statistics.median(sample(run) for _ in range(max(1, repeats)))


@dataclass(frozen=True)
class Paired:
    """Median times of two functions that ran in turn; `apart` where their quartiles do not
    overlap.
    """

    first: float
    second: float
    apart: bool


SAMPLE = 2e-3  # seconds that one sample takes at least, so that the clock does not decide


def interleaved(
    functions: Sequence[Callable[[], Any]], repeats: int, step: Callable[[], None]
) -> list[list[float]]:
    """Seconds a call of functions that run in turn, after one call each to warm up, as often as `repeats` says; `step` is called
    between the samples and may raise.
    """
    for run in functions:
        step()
        sample(run)
    calls = [max(1, int(SAMPLE / sample(run))) for run in functions]
    times: list[list[float]] = [[] for _ in functions]
    for _ in range(repeats):
        step()
        for run, n, found in zip(functions, calls, times, strict=True):
            found.append(sample(run, n))
    return times


def paired(
    first: Callable[[], Any], second: Callable[[], Any], repeats: int, step: Callable[[], None]
) -> Paired:
    """As `interleaved`, two functions."""
    times = interleaved((first, second), repeats, step)
    (low0, mid0, high0), (low1, mid1, high1) = (np.quantile(t, (0.25, 0.5, 0.75)) for t in times)
    return Paired(float(mid0), float(mid1), bool(high0 < low1 or high1 < low0))
