"""Whether a scaled program is the original as a function of the examples seen: pure functions of what both did."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from scaled_grammar import BATCH, ScaledProgram
from scaled_process import ScaledRun

from jupyter_hvd.verify.exact.scaling import check_scaling, steps_by_place

#: By how much of its range a value may differ, and at least: decays and averages are made in coarser steps.
SLACK, LEAST = 0.02, 1e-3
#: So may means of losses that fall, and of running means.
MEANS = {"metric": 0.05, "mean": 0.01}
#: Those of other programs, where the last batches of an epoch are smaller.
UNEVEN_MEANS = {"metric": 0.1, "mean": 0.1, "recent": 0.4, "acc": 0.05}


#: By what part of the examples seen an uneven program may be late or early: its counts are rounded, and so are the steps of
#: each epoch.
ROUNDING = 0.25
#: What steps add up to: each of them may come as much later as one of N ranks is long.
SUMS = frozenset({"w", "shadow", "average", "target"})


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
    if before.keys() != after.keys() and not rounding:
        yield f"prints {sorted(after)} rather than {sorted(before)}"
    for name, values in after.items():
        one = before.get(name, [])
        if name.startswith("check "):
            if abs(len(one) - len(values)) > (rounding and 2 + rounding * len(one)):
                yield f"{name}: {len(values)} times rather than {len(one)}"
            continue
        unit = 1 if name not in program.counts else factor
        yield from _other_values(name, one, values, window, unit, rounding)
    if rounding:
        rates = [
            [(step.seen, step.rate) for steps in steps_by_place(run.record) for step in steps]
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
) -> Iterator[str]:
    every = [value for _, value in one]
    if not every:
        return
    means = UNEVEN_MEANS if rounding else MEANS
    slack = SLACK * (max(every) - min(every)) + means.get(name, LEAST)
    if name in SUMS:
        changes = (abs(b - a) for a, b in pairwise(every))
        slack += 2 * window / BATCH * max(changes, default=0.0)
    for seen, value in values:
        around = window + rounding * seen
        if seen + (rounding and around) > one[-1][0]:
            return  # one process has made no such step
        near = [v for s, v in one if abs(s - seen) <= around] or every
        if not min(near) - slack <= value * factor <= max(near) + slack:
            yield f"{name} is {value * factor:g} after {seen} examples, not {min(near):g}…{max(near):g}"
            return


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
