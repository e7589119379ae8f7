"""Scale exponents: what a program's own steps, rates and schedules become where its batches are N times as large."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TypeVar

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from jupyter_hvd.analysis.scale_exponents import ScaleAnalysis

from .scale_standin import Trace, analyse, scaled, traced

T = TypeVar("T")
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
    """What is wrong with the scaled program on 2 and 3 ranks."""
    analysis = analyse(source)
    assert not analysis.unscaled, "every part of these programs has a unit"
    small = traced(source, 1, ROWS, BLOCK)
    edited = scaled(source, analysis)
    found = []
    for size in (2, 3):
        big = traced(edited, size, ROWS, BLOCK)
        found += differences(small, big, size, final_exponents(analysis))
    return found


# Exponents worked out by hand

TRAIN = "import standin\nB = 4\n"
LOOP = (
    TRAIN
    + "for epoch in range(5):\n    for i, x in enumerate(standin.batches(B)):\n        standin.train(x)\n"
)


def loop(body: str, before: str = "") -> str:
    """A training of five epochs, with lines before it and in each step."""
    lines = [" " * 8 + line for line in body.splitlines()]
    return before + "\n" + LOOP + "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("source", "name", "exponent"),
    [
        # Counters
        (loop("step += 1", "step = 0"), "step", -1),
        (loop("step = step + 1", "step = 0"), "step", -1),
        (loop("step = epoch * 36 + i"), "step", -1),
        (loop("left -= 1", "left = 180"), "left", -1),
        (loop("seen += len(x)", "seen = 0"), "seen", 0),
        (loop("if i == 0:\n    passes += 1", "passes = 0"), "passes", 0),
        (loop("if (i + 1) % 12 == 0:\n    checks += 1", "checks = 0"), "checks", 0),
        (loop("if i % 12 != 0:\n    continue\nchecks += 1", "checks = 0"), "checks", 0),
        (loop("if not i % 12:\n    checks += 1", "checks = 0"), "checks", 0),
        (loop("if i > 12:\n    late += 1", "late = 0"), "late", -1),
        (loop("if standin.loss() > 1:\n    bad += 1\nelse:\n    bad = 0", "bad = 0"), "bad", -1),
        (loop("n = 0\nfor part in range(4):\n    n += 1"), "n", 0),
        (loop('state["n"] += 1\nn = state["n"]', 'state = {"n": 0}'), "n", -1),
        (loop("losses.append(standin.loss())\nn = len(losses)", "losses = []"), "n", -1),
        # Sums and means
        (loop("total += standin.loss()", "total = 0.0"), "total", -1),
        (loop("total += standin.loss()\nmean = total / (i + 1)", "total = 0.0"), "mean", 0),
        (loop("total += standin.loss() * len(x)", "total = 0.0"), "total", 0),
        # Schedules
        (loop("share = min(1.0, i / 30)"), "share", 0),
        (loop("rate = 0.1 * 0.9 ** (i / 30)"), "rate", 0),
        (loop("rate = 1 / (1 + 0.01 * i)"), "rate", 0),
        (loop("beta = min(1.0, beta + 0.01)", "beta = 0.0"), "beta", 0),
        (loop("beta *= 0.99", "beta = 1.0"), "beta", 0),
        (loop("import math\nscale = math.sqrt(i)"), "scale", Fraction(-1, 2)),
        (loop("rate = (i + 1) ** -0.5"), "rate", Fraction(1, 2)),
        (loop("n = standin.rows() // B"), "n", -1),
        # Functions and classes
        (
            TRAIN + "def steps(n):\n    return n * (standin.rows() // B)\ntotal = steps(3)\n",
            "total",
            -1,
        ),
        (loop("on_each()\n", "n = 0\ndef on_each():\n    global n\n    n += 1"), "n", -1),
    ],
)
def test_exponents_worked_out_by_hand(source, name, exponent):
    assert final_exponents(analyse(source))[name] == exponent


@pytest.mark.parametrize(
    ("source", "line", "after"),
    [
        # A constant is divided once, where it is defined
        (
            loop("if i < warm:\n    pass\nif i % warm == 0:\n    pass", "warm = 12"),
            "warm = 12",
            "warm = max(1, 12 // standin.size())",
        ),
        # A number that counts epochs elsewhere is converted where it is compared
        (
            loop("late = i > E", "E = 5").replace("range(5)", "range(E)"),
            "late = i > E",
            "late = i > max(1, E // standin.size())",
        ),
        # A function that expects one process's steps gets them
        (
            loop("rate = standin.schedule(i)"),
            "rate = standin.schedule(i)",
            "rate = standin.schedule(i * standin.size())",
        ),
        # Ratios of steps need nothing
        (loop("share = i / (standin.rows() // B)"), "share =", "share = i / (standin.rows() // B)"),
        # A patience that counts evaluations stays, one that counts steps is divided
        (
            loop("if (i + 1) % 12 == 0:\n    bad += 1\nif bad >= 3:\n    break", "bad = 0"),
            "if bad",
            "if bad >= 3:",
        ),
        (
            loop("bad += 1\nif bad >= 30:\n    break", "bad = 0"),
            "if bad",
            "if bad * standin.size() >= 30:",
        ),
        # A number from outside the program
        (
            loop("if i < warm:\n    pass", "import standin\nwarm = standin.given(30)"),
            "warm =",
            "warm = max(1, standin.given(30) // standin.size())",
        ),
        # Increments by which a fraction grows, and factors
        (loop("beta += 0.01", "beta = 0.0"), "beta +=", "beta += 0.01 * standin.size()"),
        (loop("beta *= 0.99", "beta = 1.0"), "beta *=", "beta *= 0.99 ** standin.size()"),
        # Accumulation over batches stays: it is these that grow
        (
            TRAIN
            + "for i, x in enumerate(standin.batches(B)):\n    if (i + 1) % 4 == 0:\n        standin.train(x)\n",
            "if (i",
            "if (i + 1) % 4 == 0:",
        ),
        # Loops that train
        (
            TRAIN + "for step in range(1200):\n    standin.train(standin.batch(step, B))\n",
            "for step",
            "for step in range(max(1, 1200 // standin.size())):",
        ),
        (
            TRAIN
            + "for epoch in range(3):\n    for step in range(1200):\n        standin.train(standin.batch(step, B))\n",
            "for epoch",
            "for epoch in range(3):",
        ),
        # Nothing trains: nothing counts steps
        (
            "n = 0\nfor i in range(100):\n    n += 1\n    if n % 10 == 0:\n        print(n)\n",
            "if n",
            "if n % 10 == 0:",
        ),
    ],
)
def test_edits_worked_out_by_hand(source, line, after):
    analysis = analyse(source)
    edited = [each.strip() for each in scaled(source, analysis).splitlines()]
    assert after in edited, [each for each in edited if each.startswith(line)]


# Programs of random parts


@dataclass
class Draft:
    """A program that is being made.

    Attributes:
        before: the lines before its loop. body, tail: the lines of each step. seen: the variables that are recorded.
        counts_after: the step is counted after it is made, so that its number begins at 1.
    """

    draw: st.DrawFn
    counts_after: bool
    before: list[str] = field(default_factory=list)
    body: list[str] = field(default_factory=list)
    tail: list[str] = field(default_factory=list)
    seen: dict[str, None] = field(default_factory=dict)

    def steps(self) -> int:
        """A number of steps that can be divided by 2 and 3 ranks."""
        return 6 * self.between(1, 8)

    def between(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))

    def flips(self) -> bool:
        return self.draw(st.booleans())

    def one_of(self, choices: Sequence[T]) -> T:
        return self.draw(st.sampled_from(choices))

    def number(self, name: str, value: int) -> str:
        """A constant, in place or under a name."""
        if self.flips():
            self.before.append(f"{name} = {value}")
            return name
        return str(value)


@st.composite
def programs(draw: st.DrawFn, kinds: tuple[str, ...] = ()) -> str:
    """A training with counters, guards, warm-ups, patience and exits."""
    shape = draw(st.sampled_from(sorted(LOOPS)))
    draft = Draft(draw, counts_after=shape in ("epochs", "while"))
    if draft.counts_after:
        draft.before.append("step = 0")
        draft.body.append(draft.one_of(["step += 1", "step = step + 1", "step = 1 + step"]))
    draft.seen["step"] = None
    parts = draw(st.lists(st.sampled_from(kinds or sorted(PARTS)), min_size=1, max_size=4))
    for place, kind in enumerate(parts):
        PARTS[kind](draft, place)
    draft.body.append(f"standin.see({', '.join(f'{name}={name}' for name in draft.seen)})")
    draft.body += draft.tail
    loop, before = LOOPS[shape](draft), draft.before
    if shape in ("epochs", "enumerated"):  # an early exit leaves both loops
        left = [line.replace("break", "return") for line in loop]
        loop, before = ["def main():", *indented([*before, *left], 1), "main()"], []
    return "\n".join(["import math", "import standin", f"B = {BATCH}", *before, *loop]) + "\n"


def indented(lines: list[str], depth: int) -> list[str]:
    return [" " * 4 * depth + line for line in lines]


def _epochs(draft: Draft) -> list[str]:
    epochs = draft.between(2, 5)
    head = [f"for epoch in range({epochs}):", "    for x in standin.batches(B):"]
    return [*head, *indented(["standin.train(x)", *draft.body], 2)]


def _enumerated(draft: Draft) -> list[str]:
    epochs = draft.between(2, 5)
    head = [
        f"for epoch in range({epochs}):",
        "    for i, x in enumerate(standin.batches(B)):",
        "        step = epoch * (standin.rows() // B) + i",
    ]
    return [*head, *indented(["standin.train(x)", *draft.body], 2)]


def _flat(draft: Draft) -> list[str]:
    steps = 6 * draft.between(4, 25)
    fetch = [f"for step in range({steps}):"]
    take = ["x = standin.batch(step, B)", "standin.train(x)"]
    return [*fetch, *indented([*take, *draft.body], 1)]


def _while(draft: Draft) -> list[str]:
    steps = 6 * draft.between(4, 25)
    named = draft.flips()
    head = [f"total = {steps}", "while step < total:"] if named else [f"while step < {steps}:"]
    take = ["x = standin.batch(step, B)", "standin.train(x)"]
    return [*head, *indented([*take, *draft.body], 1)]


LOOPS = {"epochs": _epochs, "enumerated": _enumerated, "flat": _flat, "while": _while}


def _warm_up(draft: Draft, place: int) -> None:
    warm, rate = draft.number(f"warm{place}", draft.steps()), f"rate{place}"
    spelled = draft.one_of(["block", "expression", "minimum"])
    if spelled == "block":
        draft.body += [
            f"if step < {warm}:",
            f"    {rate} = 0.1 * step / {warm}",
            "else:",
            f"    {rate} = 0.1",
        ]
    elif spelled == "expression":
        draft.body.append(f"{rate} = 0.1 * step / {warm} if step < {warm} else 0.1")
    else:
        draft.body.append(f"{rate} = 0.1 * min(1.0, step / {warm})")
    draft.body.append(f"standin.set_rate({rate})")
    draft.seen[rate] = None


def _decay(draft: Draft, place: int) -> None:
    rate, period = f"rate{place}", draft.number(f"period{place}", draft.steps())
    draft.body.append(
        draft.one_of(
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
    draft.seen[rate] = None


def _patience(draft: Draft, place: int) -> None:
    period = draft.number(f"period{place}", draft.steps())
    patience = draft.number(f"patience{place}", draft.between(2, 6))
    bad, best = f"bad{place}", f"best{place}"
    draft.before += [f"{bad} = 0", f"{best} = 100.0"]
    count = "step" if draft.counts_after else "(step + 1)"
    judged = [
        "value = standin.evaluate()",
        f"if value < {best}:",
        f"    {best} = value",
        f"    {bad} = 0",
        "else:",
        f"    {bad} += 1",
    ]
    leave = [f"if {bad} >= {patience}:", "    break"]
    match draft.one_of(["equal", "not", "continue"]):
        case "equal":
            draft.body += [f"if {count} % {period} == 0:", *indented([*judged, *leave], 1)]
        case "not":
            draft.body += [f"if not {count} % {period}:", *indented(judged, 1), *leave]
        case "continue":
            draft.tail = [f"if {count} % {period}:", "    continue", *judged, *leave]
    draft.seen[bad] = None


def _step_patience(draft: Draft, place: int) -> None:
    patience = draft.number(f"patience{place}", 6 * draft.between(3, 6))
    bad, best = f"bad{place}", f"best{place}"
    draft.before += [f"{bad} = 0", f"{best} = 100.0"]
    draft.body += [
        "value = standin.loss()",
        f"if value < {best}:",
        f"    {best}, {bad} = value, 0",
        "else:",
        f"    {bad} += 1",
        f"if {bad} >= {patience}:",
        "    break",
    ]


def _exit(draft: Draft, place: int) -> None:
    last = draft.number(f"last{place}", 6 * draft.between(3, 20))
    shift = "" if draft.counts_after else " + 1"
    draft.body += [f"if step{shift} >= {last}:", "    break"]


def _ramp(draft: Draft, place: int) -> None:
    value = f"ramp{place}"
    start, line = draft.one_of(
        [
            ("0.0", "{0} = min(1.0, {0} + 0.01)"),
            ("0.0", "{0} += 0.004"),
            ("1.0", "{0} *= 0.995"),
            ("1.0", "{0} = max(0.05, {0} * 0.99)"),
        ]
    )
    draft.before.append(f"{value} = {start}")
    draft.body.append(line.format(value))
    draft.seen[value] = None


def _mean(draft: Draft, place: int) -> None:
    total, count, mean = f"total{place}", f"count{place}", f"mean{place}"
    draft.before += [f"{total} = 0.0", f"{count} = 0"]
    draft.body += [
        f"{total} += standin.loss()",
        f"{count} += 1",
        f"{mean} = {total} / {count}",
    ]
    draft.seen[count] = None


def _rows(draft: Draft, place: int) -> None:
    rows = f"rows{place}"
    draft.before.append(f"{rows} = 0")
    draft.body.append(f"{rows} += len(x)")
    draft.seen[rows] = None
    if draft.flips():
        draft.body += [f"if {rows} >= {6 * BATCH * draft.between(6, 20)}:", "    break"]


def _chosen_steps(draft: Draft, place: int) -> None:
    one, other = sorted((draft.steps(), draft.steps()))
    rate = f"stage{place}"
    draft.before.append(f"{rate} = 1.0")
    draft.body += [f"if step in ({one}, {other}):", f"    {rate} = {rate} * 0.5"]
    draft.seen[rate] = None


def _entry(draft: Draft, place: int) -> None:
    state = f"state{place}"
    warm = 6 * draft.between(2, 6)
    draft.before.append(f'{state} = {{"steps": 0, "warm": {warm}}}')
    draft.body += [
        f'{state}["steps"] += 1',
        f'share{place} = min(1.0, {state}["steps"] / {state}["warm"])',
    ]
    draft.seen[f"share{place}"] = None


def _object(draft: Draft, place: int) -> None:
    """A schedule that counts its own calls."""
    share = f"share{place}"
    draft.before += [
        f"class Warm{place}:",
        "    def __init__(self, warm):",
        "        self.count, self.warm = 0, warm",
        "    def rate(self):",
        "        self.count += 1",
        draft.one_of(
            [
                "        return min(1.0, self.count / self.warm)",
                "        return self.count / self.warm if self.count < self.warm else 1.0",
            ]
        ),
        f"warm{place} = Warm{place}({draft.steps()})",
    ]
    draft.body.append(f"{share} = warm{place}.rate()")
    draft.seen[share] = None


def _function(draft: Draft, place: int) -> None:
    """A schedule as a function of the step, with counts for arguments."""
    rate = f"rate{place}"
    draft.before += [
        f"def schedule{place}(step, warm, total={6 * draft.between(40, 60)}):",
        "    if step < warm:",
        "        return 0.1 * step / warm",
        "    return 0.1 * max(0.0, 1 - (step - warm) / (total - warm))",
    ]
    draft.body.append(
        f"{rate} = schedule{place}(step, {draft.number(f'warm{place}', draft.steps())})"
    )
    draft.seen[rate] = None


def _window(draft: Draft, place: int) -> None:
    """The last losses, in a list that grows or one that does not."""
    losses, window, full = f"losses{place}", draft.steps(), f"full{place}"
    if draft.flips():
        draft.before.append(f"{losses} = []")
        draft.body += [
            f"{losses}.append(standin.loss())",
            f"{full} = 1.0 if len({losses}[-{window}:]) == {window} else 0.0",
            f"if len({losses}) >= {6 * draft.between(6, 20)}:",
            "    break",
        ]
    else:
        draft.before += ["from collections import deque", f"{losses} = deque(maxlen={window})"]
        draft.body += [
            f"{losses}.append(standin.loss())",
            f"{full} = 1.0 if len({losses}) == {window} else 0.0",
        ]
    draft.seen[full] = None


PARTS = {
    "object": _object,
    "function": _function,
    "window": _window,
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


@settings(max_examples=50, deadline=None)
@given(programs())
def test_scaled_program_is_the_original_as_a_function_of_examples(source):
    assert check_oracle(source) == [], source


@pytest.mark.thorough
@settings(max_examples=2000, deadline=None)
@given(programs())
def test_many_scaled_programs_are_the_original_as_a_function_of_examples(source):
    assert check_oracle(source) == [], source


#: Parts that count rows, or ratios of steps, and so need no edit.
UNCHANGED = {"mean", "rows"}


@pytest.mark.parametrize("kind", sorted(PARTS.keys() - UNCHANGED))
def test_generator_makes_what_goes_wrong_where_only_batches_grow(kind):
    def goes_wrong(source):
        exponents = final_exponents(analyse(source))
        small = traced(source, 1, ROWS, BLOCK)
        big = traced(source.replace("B = 4", "B = 4 * standin.size()"), 2, ROWS, BLOCK)
        of_parts = {**exponents, "step": "any"}
        return "epoch" in source and bool(differences(small, big, 2, of_parts))

    quick = settings(max_examples=100, deadline=None, phases=[Phase.generate], database=None)
    find(programs(kinds=(kind,)), goes_wrong, settings=quick)
