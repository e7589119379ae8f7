"""Times of functions that run on devices."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

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
class Spread:
    """The quartiles of a function's times, in seconds."""

    low: float
    median: float
    high: float

    @property
    def is_narrow(self) -> bool:
        return self.high - self.low <= NARROW * self.median


#: Which of two functions is faster: "neither" where their times are alike, "noisy" where they vary too much to say.
Verdict = Literal["first", "second", "neither", "noisy"]

SAMPLE = 2e-3  # seconds that one sample takes at least, so that the clock does not decide
NARROW = 0.1  # the part of the median within which quartiles lie that have settled
CHANCE = 0.01  # so rarely a difference is told where there is none
LONGEST = 2.0  # seconds of sampling after which times that have not settled never will


def interleaved(
    functions: Sequence[Callable[[], Any]],
    repeats: int,
    step: Callable[[], None],
    longest: float = 0.0,
) -> list[list[float]]:
    """Seconds a call of functions that run in turn, after one call each to warm up.

    Args:
        repeats: so many rounds at least.
        step: is called between the rounds, and may raise.
        longest: seconds for which more rounds follow until the quartiles settle.
    """
    for run in functions:
        step()
        sample(run)
    calls = [max(1, int(SAMPLE / sample(run))) for run in functions]
    times: list[list[float]] = [[] for _ in functions]
    began = time.perf_counter()
    while len(times[0]) < repeats or (
        time.perf_counter() - began < longest
        and not all(spread(found).is_narrow for found in times)
    ):
        step()
        for run, n, found in zip(functions, calls, times, strict=True):
            found.append(sample(run, n))
    return times


def spread(times: Sequence[float]) -> Spread:
    low, mid, high = (float(t) for t in np.quantile(times, (0.25, 0.5, 0.75)))
    return Spread(low, mid, high)


def faster(first: Sequence[float], second: Sequence[float]) -> Verdict:
    """Which of two functions is faster that ran in turn, by a sign test of their rounds.

    What else the machine does slows both functions of a round, so rounds are compared, not all times with all others.
    """
    rounds = len(first)
    won = sum(a < b for a, b in zip(first, second, strict=True))
    most = max(won, rounds - won)
    chance = 2 * sum(math.comb(rounds, k) for k in range(most, rounds + 1)) / 2**rounds
    if chance <= CHANCE:
        return "first" if won == most else "second"
    both = spread(first), spread(second)
    return "neither" if all(each.is_narrow for each in both) else "noisy"
