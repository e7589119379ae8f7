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


def time_calls(run: Callable[[], Any], calls: int = 1) -> float:
    """Return the mean seconds of some calls one after the other."""
    began = time.perf_counter()
    for _ in range(calls):
        jax.block_until_ready(run())
    return (time.perf_counter() - began) / calls


def median_seconds(run: Callable[[], Any], repeats: int) -> float:
    """Return the median seconds of a function, after one call to compile it and to warm up."""
    time_calls(run)
    return statistics.median(time_calls(run) for _ in range(max(1, repeats)))


@dataclass(frozen=True)
class Spread:
    """The quartiles of a function's times, in seconds."""

    low: float
    median: float
    high: float

    @property
    def is_narrow(self) -> bool:
        """Whether the quartiles lie close together."""
        return self.high - self.low <= NARROW * self.median


#: Which of two functions is faster: "neither" where their times are alike, "noisy" where they vary too much to say.
Verdict = Literal["first", "second", "neither", "noisy"]

SAMPLE = 2e-3  # seconds that one sample takes at least, so that the clock does not decide
NARROW = 0.1  # the part of the median within which quartiles lie that have settled
CHANCE = 0.01  # so rarely a difference is told where there is none
LONGEST = 2.0  # seconds of sampling after which times that have not settled never will


def time_interleaved(
    functions: Sequence[Callable[[], Any]],
    repeats: int,
    step: Callable[[], None],
    longest: float = 0.0,
) -> list[list[float]]:
    """Return the seconds of each call of functions that run in alternation, after one call each to warm up.

    Args:
        repeats: so many rounds at least.
        step: is called between the rounds, and may raise.
        longest: seconds for which more rounds follow until the quartiles settle.
    """
    for run in functions:
        step()
        time_calls(run)
    calls = [max(1, int(SAMPLE / time_calls(run))) for run in functions]
    times: list[list[float]] = [[] for _ in functions]
    began = time.perf_counter()
    while len(times[0]) < repeats or (
        time.perf_counter() - began < longest
        and not all(quartiles_of(found).is_narrow for found in times)
    ):
        step()
        for run, n, found in zip(functions, calls, times, strict=True):
            found.append(time_calls(run, n))
    return times


def quartiles_of(times: Sequence[float]) -> Spread:
    """Return the quartiles of times."""
    low, mid, high = (float(t) for t in np.quantile(times, (0.25, 0.5, 0.75)))
    return Spread(low, mid, high)


def compare_times(first: Sequence[float], second: Sequence[float]) -> Verdict:
    """Return which of two functions that ran in alternation is faster, by a sign test of their rounds.

    What else the machine does slows both functions of a round, so rounds are compared, not all times with all others.
    """
    rounds = len(first)
    won = sum(a < b for a, b in zip(first, second, strict=True))
    most = max(won, rounds - won)
    chance = 2 * sum(math.comb(rounds, k) for k in range(most, rounds + 1)) / 2**rounds
    if chance <= CHANCE:
        return "first" if won == most else "second"
    both = quartiles_of(first), quartiles_of(second)
    return "neither" if all(each.is_narrow for each in both) else "noisy"
