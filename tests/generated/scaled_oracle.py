"""Whether a scaled program is the original as a function of the examples seen: pure functions of what both did."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from scaled_grammar import BATCH, ScaledProgram
from scaled_process import ScaledRun

from jupyter_hvd.verify.exact.scaling import check_scaling

#: By how much of its range a value may differ, and at least: decays and averages are made in coarser steps.
SLACK, LEAST = 0.02, 1e-3
#: So may means of losses that fall, and of running means.
MEANS = {"metric": 0.05, "mean": 0.01}


#: What steps add up to: each of them may come as much later as one of N ranks is long.
SUMS = frozenset({"w", "shadow", "average"})


def differences(
    program: ScaledProgram, original: ScaledRun, scaled: ScaledRun, size: int
) -> Iterator[str]:
    """What is wrong with the scaled program in one process that pretends to be `size` ranks."""
    if scaled.error:
        yield f"error: {scaled.error}"
        return
    factor = 1 if program.is_whole else size
    window = factor * BATCH
    for check in check_scaling(original.record, scaled.record, size):
        if check.status != "pass":
            yield f"{check.check}: {check.status}: {check.detail}"
    before, after = seen_values(original), seen_values(scaled)
    if before.keys() != after.keys():
        yield f"prints {sorted(after)} rather than {sorted(before)}"
    for name, values in after.items():
        one = before.get(name, [])
        if name.startswith("check "):
            if len(one) != len(values):
                yield f"{name}: {len(values)} times rather than {len(one)}"
            continue
        yield from _other_values(
            name, one, values, window, 1 if name not in program.counts else factor
        )


def _other_values(
    name: str,
    one: list[tuple[int, float]],
    values: list[tuple[int, float]],
    window: int,
    factor: int,
) -> Iterator[str]:
    every = [value for _, value in one]
    if not every:
        return
    slack = SLACK * (max(every) - min(every)) + MEANS.get(name, LEAST)
    if name in SUMS:
        changes = (abs(b - a) for a, b in pairwise(every))
        slack += 2 * window / BATCH * max(changes, default=0.0)
    for seen, value in values:
        if seen > one[-1][0]:
            return
        near = [v for s, v in one if abs(s - seen) <= window] or every
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
