"""Where two runs of one program part: after which step, by which statement, by how much, and why. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from .steps import Places

#: How often an optimizer rounds a weight in one update, at most; Adam does so about a dozen times.
ROUNDINGS = 16
#: The weights that a run had after a step, by the variable's place; None where they were not kept.
Weights = Callable[[int, int], NDArray[Any] | None]


class Trail(Protocol):
    """What is asked of a record here; see `checks.Record`."""

    @property
    def rank(self) -> int: ...
    @property
    def names(self) -> Sequence[str]: ...
    @property
    def updated_by(self) -> Sequence[int]: ...
    @property
    def rounds_freely(self) -> bool: ...
    @property
    def trail(self) -> Sequence[Mapping[str, Any]]: ...


@dataclass(frozen=True)
class Parting:
    """The first difference of two runs.

    Attributes:
        step: after so many. variable: its name. where: the user's statement, '' where that is not known.
        apart: by how much an entry differs at most, None where the weights were not kept.
        tolerance: how much rounding may make of it.
        cause: what was, and was not, the same in that step.
    """

    step: int
    variable: str
    where: str = ""
    apart: float | None = None
    tolerance: float = 0.0
    cause: str = ""

    def __str__(self) -> str:
        much = ""
        if self.apart is not None:
            much = f" by {self.apart:.2g} (tolerance {self.tolerance:.1g}),"
        by = f", by {self.where}" if self.where else ""
        cause = f": {self.cause}" if self.cause else ""
        return f"{self.variable}{much} first after step {self.step}{by}{cause}"


def tolerance(value: NDArray[Any], steps: int, ranks: int) -> float:
    """What rounding may make of the largest entry of a variable in some updates by averages of so many ranks' gradients."""
    if not np.issubdtype(value.dtype, np.inexact):
        return 0.0
    rounding = float(np.finfo(value.dtype).eps)
    return steps * (ROUNDINGS + ranks) * rounding * float(np.max(np.abs(value), initial=0.0))


def parting(
    one: Trail,
    two: Trail,
    places: Places,
    weights: tuple[Weights, Weights],
    between: Literal["ranks", "processes"] = "ranks",
    ranks: int = 2,
) -> Parting | None:
    """Where two runs part; None where they do not.

    Where sums are in no fixed order, as on GPUs, that is where they differ by more than rounding explains.

    Args:
        between: ranks of one job, or one process before and after it was converted.
        ranks: how many average gradients.
    """
    pairs = list(zip(one.trail, two.trail, strict=False))
    for steps, (left, right) in enumerate(pairs):
        if not steps:  # before the first broadcast
            continue
        unequal = [
            place
            for place, (a, b) in enumerate(zip(left["weights"], right["weights"], strict=False))
            if a != b
        ]
        for place in unequal:
            values = [kept(steps, place) for kept in weights]
            apart, allowed = _apart(values, steps, ranks)
            if one.rounds_freely and apart is not None and apart <= allowed:
                continue
            ran = pairs[steps - 1][0]["by"]
            updated = one.updated_by[place] if place < len(one.updated_by) else -1
            return Parting(
                steps,
                one.names[place] if place < len(one.names) else "a variable",
                places.where(ran, updated),
                apart,
                allowed,
                _cause(pairs, steps, between),
            )
    return None


def _apart(
    values: Sequence[NDArray[Any] | None], steps: int, ranks: int
) -> tuple[float | None, float]:
    """By how much two values differ at most, and may."""
    one, two = values
    if one is None or two is None:
        return None, 0.0
    allowed = tolerance(one, steps, ranks)
    if one.shape != two.shape:
        return float("inf"), allowed
    wide = np.result_type(one.dtype, np.float64)
    difference = np.abs(one.astype(wide) - two.astype(wide))
    return float(np.max(difference, initial=0.0)), allowed


def _cause(
    pairs: Sequence[tuple[Mapping[str, Any], Mapping[str, Any]]], step: int, between: str
) -> str:
    """What of a step was not the same in two runs whose weights differ after it."""
    (one, two), (before, _) = pairs[step], pairs[step - 1]
    if between == "processes" and _of(pairs[step - 1], "data"):
        return "the data that the step was given differ"
    averaged = one.get("averages", 0) > before.get("averages", 0)
    if not one["applied"] and not two["applied"]:  # by no optimizer
        return "" if averaged or between == "processes" else "nothing was averaged in this step"
    if one["applied"] != two["applied"]:
        if between == "processes":
            return "the gradients that were applied differ"
        if averaged:
            return (
                "the gradients that were applied differ, though some were averaged in this step: others were not, "
                "or they were changed behind that"
            )
        return "the gradients that were applied differ, so they were not averaged"
    if between == "processes":
        return "the gradients that were applied were the same, the weights before or the optimizer were not"
    first = "the first weights were not, and no broadcast made them so"
    return f"the gradients that were applied were the same, {first if step == 1 else 'the rest was not'}"


def _of(pair: tuple[Mapping[str, Any], Mapping[str, Any]], what: str) -> bool:
    """Whether two runs differ in something that both have noted."""
    one, two = (noted.get(what) for noted in pair)
    return bool(one and two and one != two)
