"""Measures which candidate for a program is the fastest: by `f.tune(*args)`, and, of the likely ones, by the
first call where its kernel is large.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np

from ..language.errors import TensorError
from ..lowering.choices import CANDIDATES, LIKELY, MODEL, Choices
from ..lowering.plan import Plan
from . import stored_choices as chosen
from .kernel import Kernel
from .memory import require_memory
from .precision import is_traced
from .stored_choices import store_choice
from .timing import time_calls, time_interleaved

Progress = Callable[[int, int], None]
Cancelled = Callable[[], bool]


class TuningCancelledError(Exception):
    """`cancelled()` became true; nothing is remembered."""


@dataclass(frozen=True)
class Candidate:
    """A way to compute the program: the quartiles of its seconds, or why it was not timed, and whether that is
    because it `failed`.
    """

    choices: Choices
    quartiles: tuple[float, float, float] | None
    reason: str = ""
    failed: bool = False


@dataclass(frozen=True)
class Tuning:
    """What was measured, and which way is taken from now on. Its `str` is a table."""

    candidates: tuple[Candidate, ...]
    chosen: Choices

    def __str__(self) -> str:
        rows = [("kernel", "median", "quartiles", "")]
        for candidate in self.candidates:
            mark = "chosen" if candidate.choices == self.chosen else candidate.reason
            if candidate.quartiles is None:
                rows.append((str(candidate.choices), "", "", mark))
            else:
                low, middle, high = (f"{1e3 * q:.3g}" for q in candidate.quartiles)
                rows.append((str(candidate.choices), f"{middle} ms", f"{low} to {high}", mark))
        widths = [max(len(row[k]) for row in rows) for k in range(3)]
        lines = ("  ".join([*map(str.ljust, row[:3], widths), row[3]]).rstrip() for row in rows)
        return "\n".join(lines)


def tune(
    made: Kernel,
    operands: Sequence[Any],
    repeats: int,
    progress: Progress | None = None,
    cancelled: Cancelled | None = None,
    candidates: Sequence[Choices] = CANDIDATES,
    seconds: float = math.inf,
) -> Tuning:
    """Time the kernels for these arrays in turn, and remember the fastest.

    What is taken where nothing is measured is given up only for a way whose quartiles lie below its own, or that is the faster in
    nearly all turns, and whose results are its own up to rounding. Where there are few `seconds`, it runs less often; what is
    much slower once is not timed, and of what takes longer than that only what is much faster once is taken.

    Raises:
        TuningCancelledError: `cancelled()` became true.
    """

    def step() -> None:
        if cancelled is not None and cancelled():
            raise TuningCancelledError

    key = made.counts(operands), made.dtype(operands)
    first = made.by_model(operands)
    candidates = (first, *(c for c in candidates if c != first))
    plans = drop_equal_plans({c: made.compile(*key, c) for c in candidates})
    compiled: dict[Choices, Any] = {}
    reasons: dict[Choices, str] = {}
    failed = set[Choices]()
    expected = None
    once: dict[Choices, float] = {}
    for k, (choices, plan) in enumerate(plans.items()):
        step()
        try:
            compiled[choices] = _compile_candidate(
                made, plan, operands, LINES if once else math.inf
            )
            result = compiled[choices](*operands)
        except TensorError as error:
            reasons[choices] = str(error)
        except jax.errors.JaxRuntimeError as error:
            reasons[choices] = f"XLA cannot: {str(error).splitlines()[0]}"
            failed.add(choices)
        else:
            expected = result if expected is None else expected
            if not _are_close(result, expected):
                reasons[choices] = "its results differ"
            elif seconds < math.inf:
                run = partial(compiled[choices], *operands)
                once[choices] = time_calls(run)
                if once[choices] < seconds:
                    once[choices] = min(once[choices], *(time_calls(run) for _ in range(ONCE - 1)))
                elif once[choices] > PATIENCE * seconds:
                    break
        if progress is not None:
            progress(k + 1, 2 * len(plans))
    if expected is None:
        raise TensorError(next(iter(reasons.values())))
    for choices, spent in once.items():
        if spent > SLOWER * min(once.values()):
            reasons[choices] = "takes too long"
    able = [choices for choices in compiled if choices not in reasons]
    if any(once.get(choices, 0.0) > seconds for choices in able):
        able = able[:1]
    runs = [partial(compiled[choices], *operands) for choices in able]
    alone = seconds < math.inf and len(able) == 1
    times = [[0.0]] if alone else time_interleaved(runs, repeats, step)
    for _ in range(AGAIN):
        if not _needs_more_rounds(times):
            break
        times = [a + b for a, b in zip(times, time_interleaved(runs, repeats, step), strict=True)]
    turns = dict(zip(able, times, strict=True))
    quartiles = {c: _quartiles(found) for c, found in turns.items()}
    if progress is not None:
        progress(2 * len(plans), 2 * len(plans))
    fastest = _choose_fastest(quartiles, turns)
    for choices, plan in plans.items():
        if choices != fastest:
            made.functions.pop(plan, None)
    keep = (
        store_choice
        if seconds == math.inf or is_conclusive(quartiles, fastest)
        else chosen.set_choice
    )
    keep(made.digest(*key), fastest)
    rows = (Candidate(c, quartiles.get(c), reasons.get(c, ""), c in failed) for c in plans)
    return Tuning(tuple(rows), fastest)


LARGE = 1 << 20  # points, about a millisecond's, from which on a kernel's first call measures
REPEATS = 7
SECONDS = 0.5  # that a kernel takes which a first call measures
LINES = 500  # of the program of JAX's own way, beyond which XLA takes seconds: a first call does not wait for that
PATIENCE = 20  # times as long: then nothing else is tried
SLOWER = 3  # times as long as the fastest: then it is not timed
ONCE = 3  # runs that show that
FEWEST = 5  # turns that say something
SURE = 1.8  # standard deviations above a coin's by which a faster way wins them
AGAIN = 3  # times that all are timed again, where one is faster and not surely
NEAR = 0.97  # by more than this
BUSY = 0.25  # the part of the median beyond which quartiles lie apart where something else runs
SHORT = 0.2  # seconds of a run from which on they are not
_told: set[str] = set()


def choose_measured(made: Kernel, arrays: Sequence[Any]) -> Choices:
    """Return the choices for a call with these arrays: those found before, or for a large kernel the fastest of the likely
    ones, timed now.
    """
    counts, dtype = made.counts(arrays), made.dtype(arrays)
    digest = made.digest(counts, dtype)
    before = chosen.find_choice(digest)
    if before is not None:
        return before
    plan, first = made.compile(counts, dtype, MODEL), made.by_model(arrays)
    if plan.points < LARGE or not _can_measure(arrays):
        return first
    likely = [c for c in LIKELY if not c.dense or made.is_dense_worth_trying(arrays)]
    if len(drop_equal_plans({c: made.compile(counts, dtype, c) for c in likely})) == 1:
        chosen.set_choice(digest, first)
        return first
    try:
        found = tune(made, arrays, REPEATS, candidates=likely, seconds=SECONDS)
    except TensorError:
        chosen.set_choice(digest, first)  # which says why when it runs
        return first
    for candidate in found.candidates:
        if candidate.failed and candidate.reason not in _told:
            _told.add(candidate.reason)
            warnings.warn(f"computed otherwise, for {candidate.reason}", stacklevel=2)
    return found.chosen


def _can_measure(arrays: Sequence[Any]) -> bool:
    """Return whether these are arrays, not tracers, and measuring is not forbidden."""
    return not is_traced(arrays) and os.environ.get("JUPYTER_HVD_TUNE", "") != "never"


def drop_equal_plans(plans: Mapping[Choices, Plan]) -> dict[Choices, Plan]:
    """Return the plans without those equal to an earlier one."""
    found: dict[str, Choices] = {}
    for choices, plan in plans.items():
        found.setdefault(str(plan), choices)
    return {choices: plans[choices] for choices in found.values()}


def _compile_candidate(made: Kernel, plan: Plan, operands: Sequence[Any], lines: float) -> Any:
    """Return the executable of a plan.

    Raises:
        TensorError: there is not the memory for it, or the dense program is longer than so many lines.
    """
    if plan.choices.dense:
        made.require_fit(plan, operands)

    lowered = made.jit_plan(plan).lower(*operands)
    if plan.choices.dense and lowered.as_text().count("\n") > lines:
        raise TensorError("it would take long to compile")
    compiled = lowered.compile()
    require_memory(compiled, plan)
    return compiled


def _are_close(result: Any, expected: Any) -> bool:
    """Return whether two results differ by rounding alone."""
    pairs = zip(jax.tree_util.tree_leaves(result), jax.tree_util.tree_leaves(expected), strict=True)
    return all(_is_close(np.asarray(a), np.asarray(b)) for a, b in pairs)


def _is_close(a: Any, b: Any) -> bool:
    """Return whether two arrays differ by rounding alone."""
    finite = np.abs(b, where=np.isfinite(b), out=np.zeros_like(b))
    tolerance = float(jax.numpy.finfo(b.dtype).eps) ** 0.5
    largest = float(finite.max(initial=0.0))
    return bool(np.allclose(a, b, rtol=tolerance, atol=tolerance * largest, equal_nan=True))


def _quartiles(times: Sequence[float]) -> tuple[float, float, float]:
    """Return the three quartiles of times."""
    low, middle, high = np.quantile(times, (0.25, 0.5, 0.75))
    return float(low), float(middle), float(high)


def is_conclusive(
    quartiles: Mapping[Choices, tuple[float, float, float]], fastest: Choices
) -> bool:
    """Return whether another measurement would choose the same way.

    The quartiles of the fastest lie below all others', or no times vary as they do where the machine is busy.
    """
    highest = quartiles[fastest][2]
    is_clear = all(low > highest for c, (low, _, _) in quartiles.items() if c != fastest)
    return is_clear or all(high - low <= BUSY * middle for low, middle, high in quartiles.values())


def _needs_more_rounds(times: Sequence[Sequence[float]]) -> bool:
    """Return whether it takes more rounds to say if the first is the fastest."""
    middle = [float(np.median(found)) for found in times]
    best = middle.index(min(middle))
    if best == 0 or middle[best] > NEAR * middle[0] or middle[0] > SHORT:
        return False
    return not _wins_often(times[best], times[0])


def _wins_often(times: Sequence[float], others: Sequence[float]) -> bool:
    """Return whether one way is faster in more rounds than chance would have it."""
    n, faster = len(times), sum(a < b for a, b in zip(times, others, strict=True))
    return n >= FEWEST and faster >= (n + SURE * math.sqrt(n)) / 2


def _choose_fastest(
    quartiles: Mapping[Choices, tuple[float, float, float]],
    turns: Mapping[Choices, Sequence[float]],
) -> Choices:
    """Return the choices to use: the first, unless another is clearly faster."""
    first, *others = quartiles
    best = min(others, key=lambda c: quartiles[c][1], default=first)
    often = _wins_often(turns[best], turns[first])
    return best if often or quartiles[best][2] < quartiles[first][0] else first
