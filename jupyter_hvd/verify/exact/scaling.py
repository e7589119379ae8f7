"""Checks that a program was scaled up correctly. Compared with the original at as many examples seen, both in one process."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from ..checks import Check
from .records import Event, Record
from .units import check_units

#: The first words of the names of these checks.
SCALED_TO = "scaled to"
#: What an observer in detail adds to a record, which ranks are not observed for.
DETAILS = ("batch", "before", "applied")
#: Events of the same update that come before it.
AROUND = ("before", "applied")
#: By how much an update may differ from a multiple of the gradients.
PROPORTIONAL = 0.02
#: By how much a factor may differ from what it is named.
CLOSE = 1e-3
#: By how much the numbers of examples may differ that both are trained on: a last batch is left out, or is smaller.
EXAMPLES = 0.25
#: So many of the first steps tell whether a loss is a sum over rows: later ones are of other weights.
FIRST = 4
#: A schedule that goes by steps is told by so many different rates; a rate that fell once may have gone by the loss.
FEW = 3


@dataclass(frozen=True)
class ScaledStep:
    """An update by an optimizer, or a gradient where the program updates its weights without one.

    Attributes:
        rate: the optimizer's learning rate; 0 without an optimizer.
        rows: of the batches whose gradients it applies; 0 where they were not observed. line: of the program.
        seen: the number of examples in the earlier updates of this statement. loss: whose gradients these are.
        is_proportional: the update is a multiple of the gradients, as that of SGD.
    """

    rate: float
    rows: int
    line: str
    seen: int
    loss: float = math.nan
    is_proportional: bool = False


def check_scaling(original: Record, scaled: Record, size: int) -> list[Check]:
    """Compare batch sizes, learning rates, and the number of examples.

    Args:
        original, scaled: records of one process each, observed in detail; the second pretends to be `size` ranks.
    """
    before, after = steps_by_statement(original), steps_by_statement(scaled)
    pairs = list(zip(before, after, strict=False)) if len(before) == len(after) else []
    if not pairs:
        told = "not observed" if not (before and after) else "the optimizers are not the same ones"
        return [
            Check(name_check(size, what), "unknown", told)
            for what in ("batches", "rates", "examples")
        ]
    if (
        original.stopped and scaled.stopped
    ):  # a program that is not scaled makes more steps until then
        starts = [(steps[: len(after)], after) for steps, after in pairs]
        pairs = [s if is_unscaled(*s) else pair for s, pair in zip(starts, pairs, strict=True)]
    return [
        check_batches(pairs, size),
        check_rates(pairs, size),
        check_examples(pairs, size),
        *check_epochs(original, scaled, size),
        *check_evaluations(original, scaled, size),
        *check_evaluated_rows(original, scaled, size),
        *check_units(original, scaled, size, name_check(size, "units")),
    ]


def name_check(size: int, aspect: str) -> str:
    """Return the name of a check of the scaled program."""
    return f"{SCALED_TO} {size}: {aspect}"


def without_details(record: Record) -> Record:
    """Return a record without the observations that `details` adds."""
    kept = (e for e in record.events if record.sites[e.site].kind not in DETAILS)
    return replace(record, events=tuple(kept))


def steps_by_statement(record: Record) -> list[list[ScaledStep]]:
    """Return the updates of each optimizer call, in the order of their first execution; the gradients if there are none."""
    found: dict[int, list[ScaledStep]] = {}
    last: dict[tuple[str, tuple[str, ...]], Event] = {}
    rows = gathered = 0
    has_updates = any(record.sites[event.site].kind == "update" for event in record.events)
    for event in record.events:
        site = record.sites[event.site]
        last[site.kind, site.names] = event
        if site.kind == "batch":
            rows = int(event.value)
        elif site.kind == "gradient" and has_updates:
            gathered += rows
        if site.kind != ("update" if has_updates else "gradient"):
            continue
        steps = found.setdefault(event.site, [])
        rate = event.value if has_updates else 0.0
        gradient, *around = (last.get((kind, site.names)) for kind in ("gradient", *AROUND))
        loss = gradient.value if gradient is not None else math.nan
        seen = steps[-1].seen + steps[-1].rows if steps else 0
        own, gathered = gathered or rows, 0
        steps.append(ScaledStep(rate, own, site.line, seen, loss, is_proportional(event, *around)))
    return list(found.values())


def is_proportional(update: Event, before: Event | None, applied: Event | None) -> bool:
    """Whether an update changed all variables by the same multiple of their gradients."""
    if before is None or applied is None:
        return False
    sizes = {len(event.measures) for event in (update, before, applied)}
    if len(sizes) > 1 or sizes == {0}:
        return False
    change = update.measures[::2] - before.measures[::2]  # of projections, which are linear
    gradients = applied.measures[::2]
    square = float(gradients @ gradients)
    factor = float(change @ gradients) / square if square else 0.0
    off = np.linalg.norm(change - factor * gradients)
    return bool(factor < 0 and off <= PROPORTIONAL * np.linalg.norm(change))


Pairs = Sequence[tuple[Sequence[ScaledStep], Sequence[ScaledStep]]]


def check_batches(pairs: Pairs, size: int) -> Check:
    """Check that the largest batches are `size` times as large, or unchanged where each is the full data."""
    name, told = name_check(size, "batches"), []
    for before, after in pairs:
        one, many = (max(step.rows for step in steps) for steps in (before, after))
        if not one or not many:
            return Check(name, "unknown", "not observed")
        factor, said = many / one, f"{one} → {many} rows a step"
        if factor == 1 and not has_rates(before):  # of all rows, perhaps
            return Check(name, "unknown", said)
        if abs(factor - size) > CLOSE * size and not is_unscaled(before, after):
            wrong = f"{said}, {describe_factor(factor, size)}: {after[0].line}"
            cut = 1 < factor < size and after[0].rows == many  # all rows there are
            return Check(name, "unknown" if cut else "fail", wrong)
        told.append(said)
    return Check(name, "pass", "; ".join(dict.fromkeys(told)))


def is_unscaled(before: Sequence[ScaledStep], after: Sequence[ScaledStep]) -> bool:
    """Whether neither batch nor rate was scaled, as in full-batch training."""
    same_rate = abs(after[0].rate - before[0].rate) <= CLOSE * abs(before[0].rate)
    return same_rate and [s.rows for s in before] == [s.rows for s in after]


def has_same_rates(before: Sequence[ScaledStep], after: Sequence[ScaledStep]) -> bool:
    """Whether no rate was scaled: those of N ranks are among those of one process."""
    own = [step.rate for step in before]
    return all(any(abs(step.rate - r) <= CLOSE * abs(r) for r in own) for step in after)


def loss_sums_rows(before: Sequence[ScaledStep], after: Sequence[ScaledStep], size: int) -> bool:
    """Whether the loss, and with it the update, grows with the batch: then N ranks need no other rate.

    In each of the first steps the loss is about as many times as large as the batch is. A step of N ranks is compared with the
    mean of the N steps of one process on as many examples.
    """
    if not after or not after[0].is_proportional:
        return False
    for number, step in enumerate(after[:FIRST]):
        own = [each.loss for each in before[number * size : (number + 1) * size]]
        mean = sum(own) / len(own) if own else math.nan
        if not (mean > 0 and size**0.75 <= step.loss / mean <= size**1.25):
            return False
    return True


def has_rates(steps: Sequence[ScaledStep]) -> bool:
    """Whether a learning rate was recorded in any step."""
    return any(step.rate for step in steps)


def check_rates(pairs: Pairs, size: int) -> Check:
    """Check the first learning rate, and those at equal numbers of examples; of rates that begin at 0, the largest."""
    name, told, agree = name_check(size, "rates"), list[str](), True
    if not any(has_rates(before) for before, _ in pairs):
        return Check(name, "unknown", "not observed: the program changes its weights by itself")
    for before, after in pairs:
        if is_unscaled(before, after):
            told.append(f"{before[0].rate:.6g}, as before")
            continue
        if has_same_rates(before, after) and loss_sums_rows(before, after, size):
            told.append(f"{before[0].rate:.6g}: the gradients of a sum over the rows grow already")
            continue
        begins = before[0].rate != 0
        one, many = (s[0].rate if begins else max(step.rate for step in s) for s in (before, after))
        said = f"{one:.6g} → {many:.6g}" if begins else f"0 at first, up to {one:.6g} → {many:.6g}"
        place = find_wrong_rate(before, after, size)
        # The first of N steps may have the rate of the N-th step of one process, as in a warm-up by `(step + 1) / warm`.
        if place == 0 and begins and abs(many / one - size) > CLOSE * size:
            wrong = f"{said}, {describe_factor(many / one, size)}: {after[0].line}"
            return Check(name, "fail", wrong)
        if place is not None:
            factor = describe_factor(many / one, size) if one else ""
            is_wrong = factor in {n for f, n in factor_names(size).items() if f != size}
            if not begins and is_wrong:
                return Check(name, "fail", f"{said}, {factor}: {after[0].line}")
            first = f"{said} at first" if begins else said
            line = f"from step {place + 1} on ({after[place].line})"
            fault = describe_rate_fault(before, after, size)
            if fault:
                return Check(name, "fail", f"{first}; {line} {fault}")
            told.append(
                f"{first}; not compared {line}: they are others than one process has, as where the loss decides them"
            )
            agree = False
            continue
        told.append(f"{said}, and so on to the end" if len(after) > 1 else said)
    return Check(name, "pass" if agree else "unknown", "; ".join(dict.fromkeys(told)))


def find_wrong_rate(
    before: Sequence[ScaledStep], after: Sequence[ScaledStep], size: int
) -> int | None:
    """Return the first step whose rate is not `size` times any of the original's rates near the same number of examples.

    A program that sets the rate of the next step sets it one step ahead, which is `size` steps of one process.
    """
    for place, step in enumerate(after):
        near = max((n for n, own in enumerate(before) if own.seen <= step.seen), default=0)
        rates = [own.rate * size for own in before[max(0, near - size) : near + size + 1]]
        slack = CLOSE * max(map(abs, rates))
        if not min(rates) - slack <= step.rate <= max(rates) + slack:
            return place
    return None


def describe_rate_fault(
    before: Sequence[ScaledStep], after: Sequence[ScaledStep], size: int
) -> str:
    """Describe a difference of later rates; "" where the rates may depend on the loss, and so prove nothing."""
    for factor, words in ((size, "late"), (1 / size, "early")):
        moved = [replace(step, seen=int(step.seen / factor)) for step in after]
        moved = [step for step in moved if step.seen <= before[-1].seen]
        changes = len({round(step.rate, 9) for step in moved}) >= FEW
        if changes and find_wrong_rate(before, moved, size) is None:
            return f"they change {size} times too {words}: steps are not counted in one unit"
    own = [step.rate for step in before]
    change = max((abs(b - a) for a, b in pairwise(own)), default=0.0)
    if len(own) > 1 and own[-1] == max(
        own
    ):  # the last step of N ranks may be N later ones of one process
        change = max(change, size * (own[-1] - own[-2]))
    lowest, highest = (bound(step.rate for step in after) / size for bound in (min, max))
    if highest > max(own) + max(change, CLOSE * max(own)):
        return f"they are up to {highest * size:.6g}, where {max(own) * size:.6g} is the most"
    divided = describe_factor(lowest / min(own), size) if min(own) > 0 else ""
    falls = {round(b / a, 3) for a, b in pairwise(own) if a and b < a}
    if falls and divided == f"divided by {size}" and round(1 / size, 3) not in falls:
        return f"the least is {divided}: a bound is not scaled"
    return ""


def check_examples(pairs: Pairs, size: int) -> Check:
    """Check that all steps together train on as many examples as the original."""
    name = name_check(size, "examples")
    one, many = (
        sum(steps[-1].seen + steps[-1].rows for steps in part) for part in zip(*pairs, strict=True)
    )
    steps = " → ".join(str(sum(map(len, part))) for part in zip(*pairs, strict=True))
    if not one or not many:
        return Check(name, "unknown", "not observed")
    said = f"{one} → {many} in {steps} steps"
    if abs(many / one - 1) <= EXAMPLES:
        return Check(name, "pass", said)
    as_many_steps = all(len(before) == len(after) for before, after in pairs)
    if abs(many / one - size) <= EXAMPLES or as_many_steps:
        words = f"{size} times as many" if not as_many_steps else "as many steps on larger batches"
        return Check(name, "fail", f"{said}, {words}: a number of steps is not divided")
    return Check(name, "unknown", said)


def check_epochs(original: Record, scaled: Record, size: int) -> list[Check]:
    """Check that each `fit` runs as many epochs as before; no check without a `fit`."""
    before, after = ([fit.epochs for fit in record.fits] for record in (original, scaled))
    if not before and not after:
        return []
    name = name_check(size, "epochs")
    said = f"{', '.join(map(str, before))} → {', '.join(map(str, after))}"
    if before == after:
        return [Check(name, "pass", said)]
    if len(before) == len(after) and all(before):
        factors = {many / one for one, many in zip(before, after, strict=True)}
        if factors <= {float(size), 1 / size}:
            lines = "; ".join(dict.fromkeys(fit.line for fit in scaled.fits))
            words = describe_factor(factors.pop(), size)
            return [Check(name, "fail", f"{said}, {words}: epochs are not steps: {lines}")]
    return [
        Check(
            name,
            "unknown",
            f"{said}: another early exit; this can happen where the loss decides it",
        )
    ]


def check_evaluations(original: Record, scaled: Record, size: int) -> list[Check]:
    """Check that models are evaluated equally often, whatever the number of ranks; no check without evaluations.

    Evaluations are calls of a model between two steps, besides those that the steps need.
    """
    found = [count_evaluations(record) for record in (original, scaled)]
    (one, before), (many, after) = ((each or (0, 0)) for each in found)
    if None in found or not (one or many):
        return []
    name, said = name_check(size, "evaluations"), f"{one} → {many}"
    # Two evaluations, as at a step and at the end of an epoch, may come between the same two steps of N ranks.
    if one == many or before == after:
        return [Check(name, "pass", said)]
    if (one, many) == (original.steps, scaled.steps):
        return [Check(name, "pass", f"{said}, after each step")]  # there is no shorter period
    if one and many in (one * size, one // size):
        words = describe_factor(many / one, size) if one % size == 0 else f"divided by {size}"
        wrong = f"{said}, {words}: a period or a patience is not counted in its unit"
        return [Check(name, "fail", wrong)]
    return [
        Check(
            name,
            "unknown",
            f"{said}: another early exit; this can happen where the loss decides it",
        )
    ]


def check_evaluated_rows(original: Record, scaled: Record, size: int) -> list[Check]:
    """Check that an evaluation takes as many rows as before; no check without evaluations.

    Where N does not divide a number of validation batches, it is rounded, so the rows may differ by less than a batch.
    """
    before, after = (list_evaluations(record) for record in (original, scaled))
    if not before or not after:
        return []
    one, many = (sum(sum(rows) for rows, _ in each) for each in (before, after))
    name, said = name_check(size, "evaluated rows"), f"{one:.6g} → {many:.6g}"
    if abs(many - one) <= CLOSE * one:
        return [Check(name, "pass", said)]
    if len(before) != len(after):
        return [Check(name, "unknown", f"{said}, in {len(before)} → {len(after)} evaluations")]
    slack = EXAMPLES / size
    factor = next((f for f in (size, 1 / size) if abs(many / one - f) <= slack * f), None)
    if factor is None and abs(many - one) < sum(max(rows) for rows, _ in after):
        return [Check(name, "pass", f"{said}: the number of batches is rounded")]
    # A single batch may be as large as one of training.
    if factor is not None and any(len(rows) > 1 for rows, _ in after):
        wrong = (
            f"{said}, {describe_factor(factor, size)}: a number of batches or rows is not scaled"
        )
        return [Check(name, "fail", f"{wrong}: {before[0][1]}")]
    return [Check(name, "unknown", said)]


def count_evaluations(record: Record) -> tuple[int, int] | None:
    """Count the updates before which models are called more often than before other updates of the same statement.

    Returns:
        how many there are, with calls at the end of the program, and how many additional calls these are; None where a
        statement makes one update only, so that the calls it needs are unknown.
    """
    found = list_evaluations(record)
    return None if found is None else (len(found), sum(len(rows) for rows, _ in found))


def list_evaluations(record: Record) -> list[tuple[list[float], str]] | None:
    """List the rows of the calls that models get between two updates besides those that updates need, and the first line.

    Returns:
        none where a statement makes one update only; see `count_evaluations`.
    """
    calls, before = list[Event](), dict[int, list[list[Event]]]()
    for event in record.events:
        kind = record.sites[event.site].kind
        if kind == "batch":
            calls.append(event)
        elif kind == "update":
            before.setdefault(event.site, []).append(calls)
            calls = []
    if any(len(lists) == 1 for lists in before.values()):
        return None
    needed = {site: min(map(len, lists)) for site, lists in before.items()}
    extra = [own[: len(own) - needed[site]] for site, lists in before.items() for own in lists]
    return [
        ([event.value for event in own], record.sites[own[0].site].line)
        for own in (*extra, calls)
        if own
    ]


def describe_factor(factor: float, size: int) -> str:
    """Return the usual cause of a wrong factor: multiplied by the number of ranks never, twice, or by its square root."""
    for value, name in factor_names(size).items():
        if abs(factor - value) <= CLOSE * value:
            return name
    return f"{factor:.4g} times"


def factor_names(size: int) -> dict[float, str]:
    """Return factors that typical mistakes cause, with their descriptions."""
    return {
        1.0: "not scaled",
        float(size): f"{size} times",
        float(size**2): f"scaled twice, {size**2} times",
        1 / size: f"divided by {size}",
        size**0.5: f"scaled by √{size}",
    }
