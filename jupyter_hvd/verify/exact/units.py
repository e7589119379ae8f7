"""Checks that numbers which meet in a scaled program have one unit, by what they were in two runs.

On N ranks a number is N^k times that of one process, after as many examples: k is its exponent. It is -1 for counts of steps, 1
for rates, and 0 for epochs, evaluations, ratios and numbers in the text. Operands of a comparison, a remainder or a slice have
equal exponents; otherwise one was scaled and the other was not. Measured numbers, such as losses, have no exponent.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from itertools import accumulate, combinations, pairwise
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..checks import Check
from .number_recorder import NumberSeries
from .number_sites import NumberSite
from .records import Record

STEPS, NONE, RATES = -1, 0, 1
ANY = frozenset({STEPS, NONE, RATES})
#: Numbers are equal if they differ by at most this part.
EQUAL = 1e-6
#: By how much a growth per example may differ: epochs end with a batch of fewer rows.
GROWTH = 0.15
#: The batches must grow by the number of ranks up to this part, or else counts of steps have no known exponent.
GROWN = 0.2
#: A counter grows by one amount in at least this part of its intervals, of which there are at least so many.
USUAL, INTERVALS = 0.5, 3
#: A curve is a function of steps if it has so many different values at as many equal steps.
POINTS = 4
#: So many faults are described.
SHOWN = 3
Form = Literal["", "constant", "counter", "curve", "factor"]


@dataclass(frozen=True)
class Timeline:
    """The number of steps and of examples in them before each position in a record's events.

    Attributes:
        updates: for each statement that makes steps, the positions of its steps.
    """

    steps: NDArray[np.int64]
    seen: NDArray[np.float64]
    updates: tuple[NDArray[np.int64], ...]

    @property
    def rows(self) -> float:
        """The mean number of rows of a step; 0 where rows were not observed."""
        return float(self.seen[-1] / max(1, self.steps[-1]))


def make_timeline(record: Record) -> Timeline:
    """Return the timeline of a record. The rows of a step are those of all gradients since the last one."""
    kinds = [record.sites[event.site].kind for event in record.events]
    step = "update" if "update" in kinds else "gradient"
    batch, rows, steps, seen = 0.0, 0.0, [0], [0.0]
    updates: dict[int, list[int]] = defaultdict(list)
    for position, (kind, event) in enumerate(zip(kinds, record.events, strict=True)):
        if kind == "batch":
            batch = event.value
        elif kind in ("gradient", step):
            rows, batch = rows + batch, 0.0
        is_step = kind == step
        steps.append(steps[-1] + is_step)
        seen.append(seen[-1] + rows * is_step)
        if is_step:
            updates[event.site].append(position)
            rows = 0.0
    made = tuple(np.array(positions, np.int64) for positions in updates.values())
    return Timeline(np.array(steps, np.int64), np.array(seen, np.float64), made)


@dataclass(frozen=True)
class Values:
    """The values of an operand by the number of steps before them.

    Attributes:
        lows, highs: the smallest and largest value between two steps.
    """

    steps: NDArray[np.int64]
    seen: NDArray[np.float64]
    lows: NDArray[np.float64]
    highs: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.steps)

    @property
    def last(self) -> float:
        return float(self.highs[-1])

    @property
    def rows(self) -> float:
        """The mean number of rows of a step between the first and the last value."""
        return float((self.seen[-1] - self.seen[0]) / max(1, self.steps[-1] - self.steps[0]))

    @property
    def is_constant(self) -> bool:
        return bool(np.ptp(self.lows) == np.ptp(self.highs) == 0)

    @property
    def is_whole(self) -> bool:
        return bool(np.all(self.highs == np.round(self.highs)))

    @property
    def is_monotone(self) -> bool:
        changes = np.diff(self.highs)
        return bool(np.all(changes >= 0) or np.all(changes <= 0))


def arrange_values(series: NumberSeries, timeline: Timeline) -> Values:
    """Arrange the entries of an operand by steps."""
    positions = np.minimum(series.positions, len(timeline.steps) - 1)
    steps, first = np.unique(timeline.steps[positions], return_index=True)
    if not len(steps):
        return Values(steps, np.zeros(0), np.zeros(0), np.zeros(0))
    return Values(
        steps,
        timeline.seen[positions][first],
        np.minimum.reduceat(series.lows, first),
        np.maximum.reduceat(series.highs, first),
    )


@dataclass(frozen=True)
class Operand:
    """An operand in both runs.

    Attributes:
        one, many: its values in the original and in the scaled program. exponents: those that explain them; none where it is
            measured. form: how they were found; `factor`: the number is multiplied by the same factor again and again.
    """

    text: str
    scaled_text: str
    one: Values
    many: Values
    exponents: frozenset[int] = frozenset()
    form: Form = ""

    def is_only(self, exponent: int) -> bool:
        return self.exponents == {exponent}

    @property
    def range(self) -> str:
        return f"{self.one.last:.6g} → {self.many.last:.6g}"


def find_exponents(
    operand: Operand, size: int, rows: float, *, recurrent: bool = False, whole: bool = True
) -> Operand:
    """Return an operand with the exponents that explain its values.

    Args:
        rows: the mean number of rows of a step of the scaled program.
        recurrent: it is a variable that is computed from its last value. whole: all numbers that it meets are whole.
    """
    one, many = operand.one, operand.many
    if not len(one) or not len(many):
        return operand
    values = np.concatenate([one.lows, one.highs, many.lows, many.highs])
    if not np.all(np.isfinite(values)):
        return operand
    if one.is_constant and many.is_constant:
        found = explain_constants(one, many, size, whole=whole)
        return replace(operand, exponents=found, form="constant")
    if not one.rows or not is_close(many.rows, size * one.rows, GROWN):
        return operand  # in a part of the program that is not scaled
    if found := compare_growth(one, many, size):
        return replace(operand, exponents=found, form="counter")
    if recurrent and min(values) > 0:
        before, after = (replace(v, highs=np.log(v.highs)) for v in (one, many))
        if found := compare_growth(before, after, size):
            return replace(operand, exponents=found, form="factor")
    exponents = {
        exponent for exponent in (NONE, RATES) if follow_examples(one, many, size, exponent, rows)
    }
    if not exponents and follow_steps(one, many):
        exponents = {STEPS}
    return replace(operand, exponents=frozenset(exponents), form="curve" if exponents else "")


def is_close(a: float, b: float, tolerance: float) -> bool:
    return abs(a - b) <= tolerance * max(abs(a), abs(b))


def explain_constants(one: Values, many: Values, size: int, *, whole: bool) -> frozenset[int]:
    """Return the exponents of a number that does not change while the program runs, or of a range that does not."""
    ends = ((one.lows[0], many.lows[0]), (one.highs[0], many.highs[0]))
    found = ANY
    for before, after in ends:
        found &= explain_number(float(before), float(after), size, whole=whole)
    is_setting = all(v.steps[0] == 0 or len(v) >= INTERVALS for v in (one, many))
    if NONE in found or is_setting:
        return found
    # Measured after some steps: a count of these grows with them.
    before, after = one.last, many.last
    expected = before * many.steps[-1] / max(1, one.steps[-1])
    counts = before >= 4 * size and one.is_whole and abs(expected - after) < 1
    return frozenset({STEPS}) if counts else frozenset()


def explain_number(before: float, after: float, size: int, *, whole: bool) -> frozenset[int]:
    """Return the exponents for which a number of one process becomes another on N ranks.

    Args:
        whole: it may have been rounded: `1` stands for a step that `max(1, 1 // hvd.size())` leaves as it is.
    """
    if before == after == 0:
        return ANY
    exponents = {
        exponent for exponent in (NONE, RATES) if is_close(after, before * size**exponent, EQUAL)
    }
    rounded = whole and before == round(before) and after == round(after)
    if is_close(after, before / size, EQUAL) or (rounded and abs(after - before / size) < 1):
        exponents.add(STEPS)
    return frozenset(exponents)


def compare_growth(one: Values, many: Values, size: int) -> frozenset[int]:
    """Return the exponents of two counters; none where the series are no counters."""
    before, after = usual_growth(one), usual_growth(many)
    if before is None or after is None:
        return frozenset()
    growths = {k: before * size ** (k + 1) for k in ANY}
    return frozenset(
        k for k, grown in growths.items() if is_close(after, grown, EQUAL if k == STEPS else GROWTH)
    )


def usual_growth(values: Values) -> float | None:
    """Return by how much a counter usually grows in a step; None for another series."""
    if len(values) <= INTERVALS:
        return None
    growth = np.round(np.diff(values.highs) / np.diff(values.steps), 9)
    found, counts = np.unique(growth, return_counts=True)
    usual = int(np.argmax(counts))
    if found[usual] == 0 or counts[usual] < USUAL * len(growth):
        return None
    return float(found[usual])


def follow_steps(one: Values, many: Values) -> bool:
    """Whether two series are the same function of the number of steps, which rises or falls."""
    if not (one.is_monotone and many.is_monotone):
        return False  # equal random numbers are drawn at equal steps
    _, mine, yours = np.intersect1d(one.steps, many.steps, return_indices=True)
    a, b = one.highs[mine], many.highs[yours]
    different = len(np.unique(a))
    return different >= POINTS and bool(np.allclose(a, b, rtol=EQUAL, atol=0))


def follow_examples(one: Values, many: Values, size: int, exponent: int, rows: float) -> bool:
    """Whether each value of N ranks is N^k times one of the original's near the same number of examples.

    Of rates, k = 1, the first ones must be equal to some of these, as a loss that is summed over the rows may lie between them.
    """
    compared = list[float]()
    for seen, low, high in zip(many.seen, many.lows, many.highs, strict=True):
        if seen > one.seen[-1] + rows:
            break
        first = int(np.searchsorted(one.seen, seen - rows))
        last = int(np.searchsorted(one.seen, seen + rows, side="right"))
        near = slice(max(0, min(first, last - 1)), max(last, first + 1))
        lows, highs = (v[near] * float(size) ** exponent for v in (one.lows, one.highs))
        if not len(lows):
            return False
        slack = EQUAL * max(abs(low), abs(high))
        if exponent:
            inside = np.any(np.abs(lows - low) <= slack) and np.any(np.abs(highs - high) <= slack)
        else:
            inside = lows.min() - slack <= low and high <= highs.max() + slack
        if not inside:
            return exponent == RATES and len(set(compared)) >= POINTS
        compared.append(float(high))
    return len(compared) >= INTERVALS


# Sites


@dataclass(frozen=True)
class UnitFault:
    """Two numbers of different units that meet, or one that follows the number of steps.

    Attributes:
        line: of the original.
    """

    line: str
    text: str

    def __str__(self) -> str:
        return f"{self.line}: {self.text}"


def check_units(original: Record, scaled: Record, size: int, name: str) -> list[Check]:
    """Check that numbers which meet have one unit; no check where none were recorded or judged."""
    before, after = make_timeline(original), make_timeline(scaled)
    if not before.steps[-1] or not after.steps[-1]:
        return []
    if not before.rows or not after.rows:  # not observed: each step of N ranks counts as N steps
        before, after = (
            replace(timeline, seen=timeline.steps.astype(np.float64) * rows)
            for timeline, rows in ((before, 1), (after, size))
        )
    is_scaled = is_close(after.rows, size * before.rows, GROWN)
    judged, faults = 0, list[UnitFault]()
    ones, manys = list_operands(original, before), list_operands(scaled, after)
    first_operands = [0, *accumulate(len(site.operands) for site in original.number_sites)]
    for mine, yours in match_sites(original.number_sites, scaled.number_sites):
        site, other = original.number_sites[mine], scaled.number_sites[yours]
        recurrent = site.kind == "recurrence"
        whole = all(values.is_whole for values in (*ones[mine], *manys[yours]))
        found = [
            find_exponents(
                Operand(a, b, one, many), size, after.rows, recurrent=recurrent, whole=whole
            )
            for a, b, one, many in zip(
                site.operands, other.operands, ones[mine], manys[yours], strict=True
            )
        ]
        judged += is_scaled and sum(bool(operand.exponents) for operand in found) > 1
        counts = original.number_series[first_operands[mine]]
        if site.kind in ("%", "//") and gates_updates(counts, found[1].one, before):
            faults += find_period_faults(site, found[1])
        elif is_scaled:
            faults += find_site_faults(site, found)
    if faults:
        lines = list(dict.fromkeys(map(str, faults)))
        more = f" (and {len(lines) - SHOWN} more)" if len(lines) > SHOWN else ""
        return [Check(name, "fail", "; ".join(lines[:SHOWN]) + more)]
    return [Check(name, "pass", f"{judged} places where numbers meet")] if judged else []


def list_operands(record: Record, timeline: Timeline) -> list[list[Values]]:
    """Return the values of the operands of each site."""
    series = iter(record.number_series)
    return [
        [arrange_values(next(series), timeline) for _ in site.operands]
        for site in record.number_sites
    ]


def match_sites(
    before: Sequence[NumberSite], after: Sequence[NumberSite]
) -> Iterator[tuple[int, int]]:
    """Yield the positions of the sites that a conversion has in common with the original."""
    one, two = ([(site.kind, site.key) for site in sites] for sites in (before, after))
    for tag, first, last, start, end in SequenceMatcher(
        None, one, two, autojunk=False
    ).get_opcodes():
        if tag == "equal":
            yield from zip(range(first, last), range(start, end), strict=True)
            continue
        mine, yours = (defaultdict[tuple[str, int], list[int]](list) for _ in range(2))
        for found, sites, span in (
            (mine, before, range(first, last)),
            (yours, after, range(start, end)),
        ):
            for place in span:
                found[sites[place].kind, len(sites[place].operands)].append(place)
        for kind, places in mine.items():
            if len(places) == len(yours[kind]):
                yield from zip(places, yours[kind], strict=True)


def gates_updates(series: NumberSeries, periods: Values, timeline: Timeline) -> bool:
    """Whether steps of some statement are made only at some remainders of a division.

    Then the period is a ratio of steps to one another, such as of gradients that are accumulated, and is not scaled.
    """
    if not len(periods) or not periods.is_constant or not periods.last:
        return False
    period = periods.last
    for updates in timeline.updates:
        last = np.searchsorted(series.positions, updates, side="right") - 1
        last = last[last >= 0]  # a rate may be computed for the next update
        remainders = np.unique(series.highs[last] % period)
        if len(last) >= POINTS and len(remainders) < min(abs(period), len(last)):
            return True
    return False


def find_period_faults(site: NumberSite, period: Operand) -> Iterator[UnitFault]:
    """Yield the fault of a period at which some weights are updated, and which was divided."""
    if period.is_only(STEPS):
        text = f"`{period.text}` was divided ({period.range}), and is a number of steps for each update: leave it as it is"
        yield UnitFault(site.line, text)


def find_site_faults(site: NumberSite, operands: Sequence[Operand]) -> Iterator[UnitFault]:
    """Yield the fault of a site, if it has one."""
    found = [describe_growth(operand) for operand in operands]
    for a, b in pair_operands(site, operands):
        found += [describe_pair(site, a, b), describe_pair(site, b, a)]
    yield from [UnitFault(site.line, text) for text in found if text][:1]


def describe_growth(operand: Operand) -> str:
    """Describe the fault of a number that is no count, and yet the same function of steps in both programs; "" for none."""
    if not operand.is_only(STEPS) or operand.one.is_whole:
        return ""
    advice = "raise a factor that each step applies to the power of hvd.size()"
    if operand.form == "factor":
        return f"`{operand.text}` is multiplied by one factor per step in both programs ({operand.range}): {advice}"
    if operand.form == "curve":
        return f"`{operand.text}` is the same after as many steps in both programs ({operand.range}): {advice}"
    return ""


def pair_operands(
    site: NumberSite, operands: Sequence[Operand]
) -> Iterator[tuple[Operand, Operand]]:
    """Yield the pairs of operands that must have one unit."""
    match site.kind:
        case "compare":
            yield from pairwise(operands)
        case "min" | "max" | "range":
            yield from combinations(operands, 2)
        case "slice" | "index":
            name = f"len({operands[0].text})"
            length = replace(operands[0], text=name, scaled_text=name)
            yield from ((length, bound) for bound in operands[1:])
        case "%":
            if operands[0].form == "counter":
                yield operands[0], operands[1]
        case "//":  # a total that is divided by a number of epochs has another unit than these
            if operands[0].form == "counter" and operands[1].form == "constant":
                yield operands[0], operands[1]


def describe_pair(site: NumberSite, a: Operand, b: Operand) -> str:
    """Describe the fault of a pair, of which the first counts steps, or is a rate; "" for none."""
    if site.kind == "compare" and b.exponents == ANY:
        return describe_countdown(a)
    if (
        not b.is_only(NONE) or b.form == "curve"
    ):  # values near equal numbers of examples prove little
        return ""
    if a.is_only(RATES) and not a.many.is_whole:
        return f"`{a.text}` is scaled ({a.range}), and `{b.text}` is not: write `{in_parentheses(b.text)} * hvd.size()`"
    if not a.is_only(STEPS):
        return ""
    if a.form == "constant" and a.text != a.scaled_text:
        return f"`{a.text}` was divided ({a.range}), and `{b.text}` does not count steps ({b.range}): leave it as it is"
    said = f"`{a.text}` counts steps ({a.range})"
    if b.form != "constant":
        return f"{said}, and `{b.text}` does not ({b.range})"
    said += f", and `{b.text}` was not scaled"
    if np.any(b.one.lows != b.one.highs):
        return f"{said}: divide its numbers by hvd.size()"
    sign = "-" * b.text.startswith("-")
    fixed = f"{in_parentheses(b.text.removeprefix(sign))} // hvd.size()"
    if site.kind in ("%", "//"):
        fixed = f"max(1, {fixed})"
    return f"{said}: write `{f'-({fixed})' if sign else fixed}`"


def describe_countdown(operand: Operand) -> str:
    """Describe the fault of a number that counts steps down to 0, and begins with one number in both programs; "" for none."""
    if operand.form != "counter" or not operand.is_only(STEPS):
        return ""
    before, after = operand.one.highs[0], operand.many.highs[0]
    both = (operand.one, operand.many)
    falls = all(values.is_monotone and values.last < values.highs[0] for values in both)
    if not (falls and before == after and operand.one.lows.min() >= 0):
        return ""
    return f"`{operand.text}` counts steps down from {before:.6g} in both programs: divide that number by hvd.size()"


def in_parentheses(text: str) -> str:
    """Return an expression that can be multiplied."""
    simple = ast.Constant | ast.Name | ast.Attribute | ast.Call | ast.Subscript
    return text if isinstance(ast.parse(text, mode="eval").body, simple) else f"({text})"
