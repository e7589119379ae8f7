"""Scale exponents: what a program's own steps, rates and schedules become where its batches are N times as large."""

from __future__ import annotations

from fractions import Fraction
from inspect import cleandoc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_hvd.analysis.scale_exponents import ScaleAnalysis

from .scale_standin import Trace, analyse, scaled, traced

BATCH, STEPS = 4, 36
ROWS = BATCH * STEPS
#: After how many examples the loss of the stand-in changes.
BLOCK = 6 * BATCH


def final_exponents(analysis: ScaleAnalysis) -> dict[str, Fraction | str | None]:
    """The exponent of each variable at its last assignment."""
    return {each.name: each.exponent for each in analysis.explained}


def differences(
    small: Trace, big: Trace, size: int, exponents: dict[str, Fraction | str | None]
) -> list[str]:
    """Where a program on `size` ranks differs from one process as a function of examples seen.

    A step of N ranks is a step of one process that is N times as coarse, so a value may be any that the variable has in one
    process within that many examples.
    """
    found = []
    window = size * BATCH
    if abs(small.seen - big.seen) >= window:
        found.append(f"trains on {big.seen} examples rather than {small.seen}")
    if len(small.evaluations) != len(big.evaluations):
        found.append(f"evaluates at {big.evaluations} rather than at {small.evaluations}")
    for name, values in big.variables.items():
        power = exponents.get(name, Fraction(0))
        if not isinstance(power, Fraction):
            continue
        for seen, value in values:
            near = [v for s, v in small.variables.get(name, ()) if abs(s - seen) < window]
            of_one = value / float(size) ** float(power)
            slack = 1e-9 + (size if power == -1 else 0)
            if near and not min(near) - slack <= of_one <= max(near) + slack:
                found.append(
                    f"{name} is {of_one} after {seen} examples, not {min(near)}…{max(near)}"
                )
                break
    return found


def check_oracle(source: str) -> list[str]:
    """What is wrong with the scaled program on 2 and 3 ranks; nothing is asked where the analysis reports something."""
    analysis = analyse(source)
    if analysis.unscaled:
        return []
    small = traced(source, 1, ROWS, BLOCK)
    edited = scaled(source, analysis)
    found = []
    for size in (2, 3):
        big = traced(edited, size, ROWS, BLOCK)
        found += differences(small, big, size, final_exponents(analysis))
    return found


# Programs of random parts


@st.composite
def programs(draw: st.DrawFn) -> str:
    """A training with counters, guards, warm-ups, patience and exits; all counts of steps can be divided by 6."""
    steps = st.integers(1, 8).map(lambda n: 6 * n)
    lines: list[str] = ["import math", "import standin", f"B = {BATCH}"]
    shape = draw(st.sampled_from(["epochs", "enumerated", "flat", "while"]))
    counter = {"epochs": "step", "enumerated": "step", "flat": "step", "while": "step"}[shape]
    before, body, seen = list[str](), list[str](), dict[str, None]()

    def number(name: str, value: object) -> str:
        """A constant, in place or under a name."""
        if draw(st.booleans()):
            before.append(f"{name} = {value}")
            return name
        return str(value)

    counts_after = shape in ("epochs", "while")
    if counts_after:
        before.append("step = 0")
        body.append(draw(st.sampled_from(["step += 1", "step = step + 1", "step = 1 + step"])))
    seen[counter] = None
    for place, kind in enumerate(
        draw(st.lists(st.sampled_from(sorted(PARTS)), min_size=1, max_size=4))
    ):
        PARTS[kind](draw, place, number, before, body, seen, steps, counts_after)
    body.append(f"standin.see({', '.join(f'{name}={name}' for name in seen)})")
    loop = LOOPS[shape](draw, body)
    if shape in ("epochs", "enumerated"):  # an early exit leaves both loops
        left = [line.replace("break", "return") for line in loop]
        loop = ["def main():", *indented([*before, *left], 1), "main()"]
        before = []
    return "\n".join([*lines, *before, *loop]) + "\n"


def indented(lines: list[str], depth: int) -> list[str]:
    return [" " * 4 * depth + line for line in lines]


def _epochs(draw, body):
    epochs = draw(st.integers(2, 5))
    head = [f"for epoch in range({epochs}):", "    for x in standin.batches(B):"]
    return [*head, *indented(["standin.train(x)", *body], 2)]


def _enumerated(draw, body):
    epochs = draw(st.integers(2, 5))
    head = [
        f"for epoch in range({epochs}):",
        "    for i, x in enumerate(standin.batches(B)):",
        "        step = epoch * (standin.rows() // B) + i",
    ]
    return [*head, *indented(["standin.train(x)", *body], 2)]


def _flat(draw, body):
    steps = 6 * draw(st.integers(4, 25))
    fetch = [f"for step in range({steps}):"]
    take = ["x = standin.batch(step, B)", "standin.train(x)"]
    return [*fetch, *indented([*take, *body], 1)]


def _while(draw, body):
    steps = 6 * draw(st.integers(4, 25))
    named = draw(st.booleans())
    head = [f"total = {steps}", "while step < total:"] if named else [f"while step < {steps}:"]
    take = ["x = standin.batch(step, B)", "standin.train(x)"]
    return [*head, *indented([*take, *body], 1)]


LOOPS = {"epochs": _epochs, "enumerated": _enumerated, "flat": _flat, "while": _while}


def _warm_up(draw, place, number, before, body, seen, steps, after):
    warm, rate = number(f"warm{place}", draw(steps)), f"rate{place}"
    spelled = draw(st.sampled_from(["block", "expression", "minimum"]))
    if spelled == "block":
        body += [
            f"if step < {warm}:",
            f"    {rate} = 0.1 * step / {warm}",
            "else:",
            f"    {rate} = 0.1",
        ]
    elif spelled == "expression":
        body.append(f"{rate} = 0.1 * step / {warm} if step < {warm} else 0.1")
    else:
        body.append(f"{rate} = 0.1 * min(1.0, step / {warm})")
    body.append(f"standin.set_rate({rate})")
    seen[rate] = None


def _decay(draw, place, number, before, body, seen, steps, after):
    rate, period = f"rate{place}", number(f"period{place}", draw(steps))
    body.append(
        draw(
            st.sampled_from(
                [
                    f"{rate} = 0.5 * (1 + math.cos(math.pi * step / {period}))",
                    f"{rate} = 0.1 * 0.9 ** (step / {period})",
                    f"{rate} = 0.1 / (1 + 0.01 * step)",
                    f"{rate} = 0.1 * (0.5 ** (step // {period}))",
                    f"{rate} = max(0.001, 0.1 * (1 - step / {period}))",
                    f"{rate} = 0.1 if step < {period} else 0.01",
                ]
            )
        )
    )
    seen[rate] = None


def _patience(draw, place, number, before, body, seen, steps, after):
    period = number(f"period{place}", draw(steps))
    patience = number(f"patience{place}", draw(st.integers(2, 6)))
    bad, best = f"bad{place}", f"best{place}"
    before += [f"{bad} = 0", f"{best} = 100.0"]
    count = "step" if after else "(step + 1)"
    judged = [
        "value = standin.evaluate()",
        f"if value < {best}:",
        f"    {best} = value",
        f"    {bad} = 0",
        "else:",
        f"    {bad} += 1",
    ]
    leave = [f"if {bad} >= {patience}:", "    break"]
    match draw(st.sampled_from(["equal", "not", "continue"])):
        case "equal":
            body += [f"if {count} % {period} == 0:", *indented([*judged, *leave], 1)]
        case "not":
            body += [f"if not {count} % {period}:", *indented(judged, 1), *leave]
        case "continue":
            body += [f"if {count} % {period} == 0:", *indented(judged, 1), *leave]
    seen[bad] = None


def _step_patience(draw, place, number, before, body, seen, steps, after):
    patience = number(f"patience{place}", 6 * draw(st.integers(3, 6)))
    bad, best = f"bad{place}", f"best{place}"
    before += [f"{bad} = 0", f"{best} = 100.0"]
    body += [
        "value = standin.loss()",
        f"if value < {best}:",
        f"    {best}, {bad} = value, 0",
        "else:",
        f"    {bad} += 1",
        f"if {bad} >= {patience}:",
        "    break",
    ]


def _exit(draw, place, number, before, body, seen, steps, after):
    last = number(f"last{place}", 6 * draw(st.integers(3, 20)))
    shift = "" if after else " + 1"
    body += [f"if step{shift} >= {last}:", "    break"]


def _ramp(draw, place, number, before, body, seen, steps, after):
    value = f"ramp{place}"
    start, line = draw(
        st.sampled_from(
            [
                ("0.0", "{0} = min(1.0, {0} + 0.01)"),
                ("0.0", "{0} += 0.004"),
                ("1.0", "{0} *= 0.995"),
                ("1.0", "{0} = max(0.05, {0} * 0.99)"),
            ]
        )
    )
    before.append(f"{value} = {start}")
    body.append(line.format(value))
    seen[value] = None


def _mean(draw, place, number, before, body, seen, steps, after):
    total, count, mean = f"total{place}", f"count{place}", f"mean{place}"
    before += [f"{total} = 0.0", f"{count} = 0"]
    body += [
        f"{total} += standin.loss()",
        f"{count} += 1",
        f"{mean} = {total} / {count}",
    ]
    seen[count] = None


def _rows(draw, place, number, before, body, seen, steps, after):
    rows = f"rows{place}"
    before.append(f"{rows} = 0")
    body.append(f"{rows} += len(x)")
    seen[rows] = None
    if draw(st.booleans()):
        body += [f"if {rows} >= {6 * BATCH * draw(st.integers(6, 20))}:", "    break"]


def _chosen_steps(draw, place, number, before, body, seen, steps, after):
    one, other = sorted(draw(st.lists(steps, min_size=2, max_size=2, unique=True)))
    rate = f"stage{place}"
    before.append(f"{rate} = 1.0")
    body += [f"if step in ({one}, {other}):", f"    {rate} = {rate} * 0.5"]
    seen[rate] = None


def _entry(draw, place, number, before, body, seen, steps, after):
    state = f"state{place}"
    warm = 6 * draw(st.integers(2, 6))
    before.append(f'{state} = {{"steps": 0, "warm": {warm}}}')
    body += [
        f'{state}["steps"] += 1',
        f'share{place} = min(1.0, {state}["steps"] / {state}["warm"])',
    ]
    seen[f"share{place}"] = None


PARTS = {
    "warm-up": _warm_up,
    "decay": _decay,
    "patience": _patience,
    "patience in steps": _step_patience,
    "exit": _exit,
    "ramp": _ramp,
    "mean": _mean,
    "rows": _rows,
    "chosen steps": _chosen_steps,
    "entry": _entry,
}


@settings(max_examples=150, deadline=None)
@given(programs())
def test_scaled_program_is_the_original_as_a_function_of_examples(source):
    assert check_oracle(source) == [], source
