"""Whether a scaled program is the original as a function of the examples seen: pure functions of what both did."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from scaled_grammar import BATCH, ScaledProgram
from scaled_process import ScaledRun

from jupyter_hvd.verify.exact.scaling import check_scaling, steps_by_statement

#: By how much of its range a value may differ, and at least: decays and averages are made in coarser steps.
SLACK, LEAST = 0.02, 1e-3
#: So may means of losses that fall, and of running means.
MEANS = {"metric": 0.05, "mean": 0.01, "recent": 0.01}
#: Those of other programs, where the last batches of an epoch are smaller.
UNEVEN_MEANS = {"metric": 0.1, "mean": 0.1, "recent": 0.4, "acc": 0.05}


#: By what part of the examples seen an uneven program may be late or early: its counts are rounded, and so are the steps of
#: each epoch.
ROUNDING = 0.25
#: What steps add up to, and averages of it: each step may come as much later as one of N ranks is long.
SUM = "w"
SUMS = frozenset({SUM, "shadow", "average", "target"})


def differences(
    program: ScaledProgram, original: ScaledRun, scaled: ScaledRun, size: int
) -> Iterator[str]:
    """What is wrong with the scaled program in one process that pretends to be `size` ranks."""
    if scaled.error:
        yield f"error: {scaled.error}"
        return
    factor = 1 if program.is_whole else size
    window = factor * BATCH
    rounding = ROUNDING if program.is_uneven else 0.0
    for check in check_scaling(original.record, scaled.record, size):
        if rounding and check.check.endswith("evaluations"):
            continue  # of two evaluations one may come too late
        if check.status == "fail" or (check.status != "pass" and not rounding):
            yield f"{check.check}: {check.status}: {check.detail}"
    before, after = seen_values(original), seen_values(scaled)
    added = [value for _, value in before.get(SUM, [])]
    if before.keys() != after.keys() and not rounding:
        yield f"prints {sorted(after)} rather than {sorted(before)}"
    for name, values in after.items():
        one = before.get(name, [])
        if name.startswith("check "):
            if abs(len(one) - len(values)) > (rounding and 2 + rounding * len(one)):
                yield f"{name}: {len(values)} times rather than {len(one)}"
            continue
        unit = 1 if name not in program.counts else factor
        slack = size * most_change(added) if name in SUMS else 0.0
        yield from _other_values(name, one, values, window, unit, rounding, 2 * slack)
    if rounding:
        rates = [
            [(step.seen, step.rate) for steps in steps_by_statement(run.record) for step in steps]
            for run in (original, scaled)
        ]
        yield from _other_values("rate", *rates, window, 1 / factor, rounding)


def _other_values(
    name: str,
    one: list[tuple[int, float]],
    values: list[tuple[int, float]],
    window: int,
    factor: float,
    rounding: float,
    of_steps: float = 0.0,
) -> Iterator[str]:
    """What differs from one process by more than a part of its range, and what a step of N ranks may be late."""
    every = [value for _, value in one]
    if not every:
        return
    means = UNEVEN_MEANS if rounding else MEANS
    slack = SLACK * (max(every) - min(every)) + means.get(name, LEAST) + of_steps
    for seen, value in values:
        around = window + rounding * seen
        if seen + (rounding and around) > one[-1][0]:
            return  # one process has made no such step
        near = [v for s, v in one if abs(s - seen) <= around] or every
        if not min(near) - slack <= value * factor <= max(near) + slack:
            yield f"{name} is {value * factor:g} after {seen} examples, not {min(near):g}…{max(near):g}"
            return


def most_change(values: Sequence[float]) -> float:
    """The largest difference of two values in succession."""
    return max((abs(b - a) for a, b in pairwise(values)), default=0.0)


def seen_values(run: ScaledRun) -> dict[str, list[tuple[int, float]]]:
    """What was printed: by name its values, each with the number of examples seen."""
    totals, total, rows = [0], 0, 0
    for event in run.record.events:
        kind = run.record.sites[event.site].kind
        if kind == "batch":
            rows = int(event.value)
        elif kind == "update":
            total += rows
        totals.append(total)
    found: dict[str, list[tuple[int, float]]] = {}
    for events, text in run.printed:
        word, _, rest = text.partition(" ")
        if word == "see":
            name, _, value = rest.partition(" ")
            found.setdefault(name, []).append((totals[events], float(value)))
        elif word == "check":
            found.setdefault(text, []).append((totals[events], 0.0))
    return found
