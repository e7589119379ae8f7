"""`f.tune(*args)`: which of the ways to compute a program is the fastest here, measured."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from ..language.errors import TensorError
from ..lowering.choices import CANDIDATES, Choices
from ..lowering.plan import Plan
from .chosen import remember
from .execute import execute
from .kernel import Kernel
from .memory import require_memory
from .timing import interleaved

Progress = Callable[[int, int], None]
Cancelled = Callable[[], bool]


class TuningCancelledError(Exception):
    """`cancelled()` became true; nothing is remembered."""


@dataclass(frozen=True)
class Candidate:
    """A way to compute the program: the quartiles of its seconds, or why it was not timed."""

    choices: Choices
    quartiles: tuple[float, float, float] | None
    reason: str = ""


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
) -> Tuning:
    """Time the kernels for these arrays in turn, and remember the fastest.

    The model's own is given up only for one whose quartiles lie below its own, and whose results are its own up to rounding.

    Raises:
        TuningCancelledError: `cancelled()` became true.
    """

    def step() -> None:
        if cancelled is not None and cancelled():
            raise TuningCancelledError

    key = made.counts(operands), made.dtype(operands)
    plans = _distinct({c: made.compile(*key, c) for c in CANDIDATES})
    compiled: dict[Choices, Any] = {}
    reasons: dict[Choices, str] = {}
    expected = None
    for k, (choices, plan) in enumerate(plans.items()):
        step()
        try:
            compiled[choices] = _compiled(plan, operands)
            result = compiled[choices](*operands)
        except TensorError as error:
            reasons[choices] = str(error)
        except jax.errors.JaxRuntimeError as error:
            reasons[choices] = f"XLA cannot: {str(error).splitlines()[0]}"
        else:
            expected = result if expected is None else expected
            if not _alike(result, expected):
                reasons[choices] = "its results are others"
        if progress is not None:
            progress(k + 1, 2 * len(plans))
    if expected is None:
        raise TensorError(next(iter(reasons.values())))
    able = [choices for choices in plans if choices not in reasons]
    runs = [lambda run=compiled[choices]: run(*operands) for choices in able]
    times = interleaved(runs, repeats, step)
    quartiles = {c: _quartiles(found) for c, found in zip(able, times, strict=True)}
    if progress is not None:
        progress(2 * len(plans), 2 * len(plans))
    chosen = _fastest(quartiles)
    remember(made.digest(*key), chosen)
    rows = (Candidate(c, quartiles.get(c), reasons.get(c, "")) for c in plans)
    return Tuning(tuple(rows), chosen)


def _distinct(plans: Mapping[Choices, Plan]) -> dict[Choices, Plan]:
    """One of those that are alike: the first."""
    found: dict[str, Choices] = {}
    for choices, plan in plans.items():
        found.setdefault(str(plan), choices)
    return {choices: plans[choices] for choices in found.values()}


def _compiled(plan: Plan, operands: Sequence[Any]) -> Any:
    def run(*arrays: Any) -> Any:
        return execute(plan, arrays)

    compiled = jax.jit(run).lower(*operands).compile()
    require_memory(compiled, plan)
    return compiled


def _alike(result: Any, expected: Any) -> bool:
    """Whether two results differ by rounding alone."""
    pairs = zip(jax.tree_util.tree_leaves(result), jax.tree_util.tree_leaves(expected), strict=True)
    return all(_close(np.asarray(a), np.asarray(b)) for a, b in pairs)


def _close(a: Any, b: Any) -> bool:
    finite = np.abs(b, where=np.isfinite(b), out=np.zeros_like(b))
    tolerance = float(jax.numpy.finfo(b.dtype).eps) ** 0.5
    largest = float(finite.max(initial=0.0))
    return bool(np.allclose(a, b, rtol=tolerance, atol=tolerance * largest, equal_nan=True))


def _quartiles(times: Sequence[float]) -> tuple[float, float, float]:
    low, middle, high = np.quantile(times, (0.25, 0.5, 0.75))
    return float(low), float(middle), float(high)


def _fastest(quartiles: Mapping[Choices, tuple[float, float, float]]) -> Choices:
    first, *others = quartiles
    best = min(others, key=lambda c: quartiles[c][1], default=first)
    return best if quartiles[best][2] < quartiles[first][0] else first
