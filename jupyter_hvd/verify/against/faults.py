"""Finds the first wrong step of a distributed training run, and classifies the error.

Pure functions of observed processes. Projections of tensors are linear, so that the mean of the ranks' projections is the
projection of their mean.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..exact.compare import LEAST, RunningMaximum, compare_histories, is_close, number_of
from ..exact.scaling import describe_rate_fault, find_wrong_rate, steps_by_statement
from .steps import Numbers, Process, Step

Mode = Literal["exact", "scaled"]
Kind = Literal[
    "not averaged",
    "summed instead of averaged",
    "averaged twice",
    "clipped before averaging",
    "gradients changed before the update",
    "gradients not changed before the update",
    "other gradients",
    "other loss",
    "other data on a rank",
    "the same data on all ranks",
    "shards overlap",
    "unequal batches averaged without weights",
    "rate not scaled",
    "rate scaled twice",
    "rate scaled, batch not",
    "schedule not scaled",
    "other rate",
    "other initial weights",
    "weights not broadcast",
    "weights changed between steps",
    "optimizer state not broadcast",
    "other update",
    "other variables updated",
    "moments of batch normalisation local",
    "metric of one rank",
    "other history",
    "early exit on one rank",
    "other number of steps",
    "number of steps not divided",
    "the ranks fail",
]
#: What is compared at each step, in the order in which one follows from the other.
BEFORE, DATA, RATE, LOSS, GRADIENTS, UPDATE = (
    "weights before the step", "data", "learning rate", "loss", "averaged gradients", "update",
)  # fmt: skip
#: Aspects of a whole run.
BROADCAST, COUNT, METRICS = "broadcast", "steps", "history"
#: Ranks hold equal bits where nothing is wrong; sums in no fixed order, as on GPUs, are left this much.
RANKS_TOLERANCE = 1e-6
#: How much of a variable is lost where the small change of an update is taken from two roundings of it.
VALUE_ROUNDING = 4e-6
#: The change by an update may differ by this part: optimizers divide by roots, and multiply what rounding has left.
UPDATE_TOLERANCE = 1e-2
#: How the names of an evaluation's curves begin.
EVALUATED = "val_"
#: So much less than N times as many examples may N ranks take that do not divide a number of steps.
MORE_EXAMPLES = 0.25
#: Rows are the same where their projections differ by no more than this part of the largest.
ROW_TOLERANCE = 1e-6
#: By so much of their size half precision changes gradients.
HALF_PRECISION = 2e-3
#: Where less than this part of a run's rows is different, it reuses its examples as they are.
REUSED = 0.7


@dataclass(frozen=True)
class Fault:
    """The first observed error of a distributed training.

    Attributes:
        aspect: what was compared when it appeared, such as gradients. step: the first step with the error, 0 where unknown.
        line: of the distributed program.
    """

    kind: Kind
    aspect: str
    detail: str
    step: int = 0
    line: str = ""
    variable: str = ""

    def __str__(self) -> str:
        at = [f"at step {self.step}"] * bool(self.step) + [self.line] * bool(self.line)
        place = f", {', '.join(at)}" if at else ""
        return f"{self.kind}{place}: {self.detail}"


@dataclass(frozen=True)
class StepComparison:
    """The result of a step-by-step comparison.

    Attributes:
        counts: the number of steps that were compared, by aspect.
        unjudged: why the comparison ended before a fault was found; "" where it did not.
    """

    counts: Counter[str]
    fault: Fault | None = None
    unjudged: str = ""


class UnjudgedError(Exception):
    """Raised where no later step can be compared; the message is the reason."""


@dataclass(frozen=True)
class StepOfRanks:
    """One training step: that of the original, and the same one on each rank.

    Attributes:
        number: of the step, from 1. own: the original's step; None where only the ranks are compared with each other.
        ranks: the step of each rank. largest: the largest gradient norms up to this step.
        ignored: names of variables that are not compared with the original's.
    """

    number: int
    own: Step | None
    ranks: tuple[Step, ...]
    original: Process
    tolerance: float
    equal_start: bool
    largest: RunningMaximum = field(compare=False)
    ignored: frozenset[str] = frozenset()

    @property
    def size(self) -> int:
        """The number of ranks."""
        return len(self.ranks)

    def make_fault(self, kind: Kind, aspect: str, detail: str, line: str = "", index: int | None = None) -> Fault:  # fmt: skip
        """Return a fault of this step.

        Args:
            line: the user's line; that of the update by default.
            index: of the variable concerned, if any.
        """
        first = self.ranks[0]
        variable = "" if index is None else first.names[index]
        return Fault(kind, aspect, detail, self.number, line or first.update_line, variable)


#: Whether an aspect was observed and is right, or what is wrong with it.
Check = Callable[[StepOfRanks], "Fault | bool"]


def compare_steps(
    original: Process,
    ranks: Sequence[Process],
    checks: Sequence[tuple[str, Check]],
    tolerance: float,
    paired: bool,
    ignored: frozenset[str] = frozenset(),
    first: int = 0,
) -> StepComparison:
    """Run the checks on each step in order, until the first fault.

    Args:
        paired: compare each step with the original's step of the same number. first: the number of steps to skip.
    """
    counts: Counter[str] = Counter()
    together = [original, *ranks] if paired else ranks
    largest = RunningMaximum(0.0)
    steps = min((len(p.steps) for p in together), default=0)
    equal_start = not steps or find_rank_divergence([p.steps[0].before for p in ranks]) is None
    for index in range(first, steps):
        moment = StepOfRanks(
            index + 1,
            original.steps[index] if paired else None,
            tuple(p.steps[index] for p in ranks),
            original,
            tolerance,
            equal_start,
            largest,
            ignored,
        )
        if len({len(s.names) for s in (*moment.ranks, *([moment.own] if moment.own else []))}) > 1:
            if is_single_update(original) and all(map(is_single_update, ranks)):
                return StepComparison(counts, find_variables_fault(moment))
            return StepComparison(counts, unjudged=f"step {index + 1} updates other variables")
        for aspect, check in checks:
            try:
                found = check(moment)
            except UnjudgedError as reason:
                return StepComparison(counts, unjudged=str(reason))
            if isinstance(found, Fault):
                return StepComparison(counts, found)
            counts[aspect] += found
    if paired and min((p.record.steps for p in together), default=0) > steps:
        return StepComparison(counts, unjudged=f"step {steps + 1} was not fully observed")
    return StepComparison(counts)


def compare_with_original(
    original: Process,
    ranks: Sequence[Process],
    tolerance: float,
    ignored: frozenset[str] = frozenset(),
) -> StepComparison:
    """Compare a training that should equal the original exactly: the ranks shard each batch of the original.

    Args:
        ignored: names of the original's variables whose values are not compared.
    """
    checks = (
        (BEFORE, check_weights_before),
        (DATA, check_batch),
        (RATE, check_rate),
        (LOSS, check_loss),
        (GRADIENTS, check_gradients),
        (UPDATE, check_update),
    )
    return compare_steps(original, ranks, checks, tolerance, paired=True, ignored=ignored)


def compare_ranks(original: Process, ranks: Sequence[Process], tolerance: float) -> StepComparison:
    """Check what every data-parallel training must satisfy: ranks average their gradients and keep equal weights.

    The first step need not average if its weights are overwritten with one rank's: it only creates the optimizer's state, as
    in Horovod's elastic examples.
    """
    checks = (
        (BEFORE, check_ranks_before),
        (RATE, check_rates_equal),
        (GRADIENTS, check_averaging),
        (UPDATE, check_ranks_after),
    )
    found = compare_steps(original, ranks, checks, tolerance, paired=False)
    fault = found.fault
    if fault is None or (fault.kind, fault.step) != ("not averaged", 1):
        return found
    if not is_first_step_overwritten(ranks):
        return found
    return compare_steps(original, ranks, checks, tolerance, paired=False, first=1)


def is_first_step_overwritten(ranks: Sequence[Process]) -> bool:
    """Whether ranks have different weights after their first step, and equal ones when the second begins."""
    if any(len(p.steps) < 2 for p in ranks):
        return False
    after, before = [p.steps[0].after for p in ranks], [p.steps[1].before for p in ranks]
    return find_rank_divergence(after) is not None and find_rank_divergence(before) is None


# Variables


def is_single_update(process: Process) -> bool:
    """Whether one statement updates all variables, so that its steps can be compared with another program's."""
    return len({(step.update_line, step.names) for step in process.steps}) == 1


def find_variables_fault(moment: StepOfRanks) -> Fault:
    """Return the fault that a step updates more or fewer variables than the original's."""
    counts = [len(s.names) for s in moment.ranks]
    said = " and ".join(map(str, dict.fromkeys(counts)))
    own = f"; one process {len(moment.own.names)}" if moment.own is not None else ""
    return moment.make_fault(
        "other variables updated", UPDATE, f"ranks update {said} variables{own}"
    )


# Weights


def find_rank_divergence(values: Sequence[Numbers]) -> tuple[int, int, float] | None:
    """Return the rank, variable and difference of the values that differ most from rank 0's; None where all are equal."""
    zero = values[0]
    allowed = RANKS_TOLERANCE * np.maximum(1.0, zero[:, 1:2])
    worst = None
    for rank, other in enumerate(values[1:], 1):
        apart = np.abs(other - zero) / allowed
        if apart.size and not np.nanmax(apart) <= 1.0 and not np.isnan(zero).any():
            place = int(np.nanargmax(apart.max(axis=1)))
            amount = float(np.abs(other - zero)[place].max())
            worst = max(worst or (0, 0, 0.0), (rank, place, amount), key=lambda found: found[2])
    return worst


def check_weights_before(moment: StepOfRanks) -> Fault | bool:
    """Check that the weights before the first step equal the original's, and that nothing else changes them between steps."""
    assert moment.own is not None
    if find_rank_divergence([s.before for s in moment.ranks]) is not None:
        if moment.number == 1:
            raise UnjudgedError("ranks begin with different weights")
        return check_ranks_before(moment)
    own, theirs = moment.own.before, moment.ranks[0].before
    allowed = moment.tolerance * np.maximum(1.0, own[:, 1:2])
    apart = np.abs(theirs - own) / allowed * mask_compared_variables(moment)[:, np.newaxis]
    if not apart.size or np.nanmax(apart) <= 1.0:
        return True
    place = int(np.nanargmax(apart.max(axis=1)))
    amount = f"{np.abs(theirs - own)[place].max():.2g}"
    name = moment.ranks[0].names[place]
    if moment.number == 1:
        detail = f"`{name}` differs by {amount} from that of one process: give both programs the same seed"
        return moment.make_fault("other initial weights", BEFORE, detail, index=place)
    detail = f"`{name}` has changed by {amount} since the update before"
    return moment.make_fault("weights changed between steps", BEFORE, detail, index=place)


def check_ranks_before(moment: StepOfRanks) -> Fault | bool:
    """Check that ranks begin each step with equal weights. In the first step they may be broadcast right after it instead."""
    found = find_rank_divergence([s.before for s in moment.ranks])
    if found is None:
        return True
    if moment.number == 1:
        return False
    rank, place, amount = found
    name = moment.ranks[0].names[place]
    detail = f"`{name}` differs by {amount:.2g} between rank 0 and {rank} when the step begins"
    kind: Kind = "weights changed between steps"
    if moment.number == 2 and not moment.equal_start:
        kind = "weights not broadcast"
    return moment.make_fault(kind, BEFORE, detail, index=place)


# Data


def check_batch(moment: StepOfRanks) -> Fault | bool:
    """Check that the ranks' rows together are those of the original's batch, in any order."""
    assert moment.own is not None
    rows = [s.rows for s in moment.ranks]
    if moment.own.rows is None or any(r is None for r in rows):
        return False
    together = np.concatenate([r for r in rows if r is not None])
    if have_equal_rows(moment.own.rows, together):
        return True
    raise UnjudgedError(
        f"step {moment.number} has other examples than in one process, {len(together)} over all ranks instead of "
        f"{len(moment.own.rows)}"
    )


def row_tolerance(rows: Numbers) -> float:
    """Return the difference up to which projections of equal rows may differ."""
    return ROW_TOLERANCE * max(1e-30, float(np.max(np.abs(rows), initial=0.0)))


def have_equal_rows(batch: Numbers, other: Numbers) -> bool:
    """Whether two batches have the same rows, in any order."""
    allowed = row_tolerance(batch)
    return len(batch) == len(other) and bool(
        np.all(np.abs(np.sort(batch) - np.sort(other)) <= allowed)
    )


def take_same_examples(ranks: Sequence[Process]) -> bool:
    """Whether all ranks train on the same examples at each step."""
    steps = list(zip(*(p.steps for p in ranks), strict=False))
    seen = [[s.rows for s in step] for step in steps]
    return bool(seen) and all(
        all(r is not None and first is not None and have_equal_rows(first, r) for r in rest)
        for first, *rest in seen
    )


def find_data_fault(original: Process, ranks: Sequence[Process]) -> tuple[Fault | None, str]:
    """Compare the examples that the ranks take over the whole run with the original's.

    Returns:
        the fault or None, and a description of what was compared; "" where batches were not observed.
    """
    own = original.rows
    if not len(own) or any(not len(p.rows) for p in ranks):
        return None, ""
    examples = sort_distinct_rows(own)
    reused = len(examples) <= REUSED * len(own)
    foreign = [rows_missing_in(examples, p.rows) for p in ranks]
    if not original.record.stopped and (
        reused or not min(foreign)
    ):  # else examples may be changed at random
        for rank, count in enumerate(foreign):
            if count:
                detail = f"{count} of {len(ranks[rank].rows)} examples of rank {rank} are none of one process's"
                first = find_foreign_row(examples, ranks[rank])
                return Fault("other data on a rank", DATA, detail, *first), ""
    if not reused:
        return None, "not judged: one process takes each example once, or changes it at random"
    if original.record.stopped or any(p.record.stopped for p in ranks):
        return None, "not judged: the training was ended before its end"
    wanted = count_rows(examples, own)
    taken = count_rows(examples, np.concatenate([p.rows for p in ranks]))
    if original.record.stopped or any(p.record.stopped for p in ranks):
        return None, ""
    never = int(np.sum((taken == 0) & (wanted > 0)))
    # With equal seeds, ranks that draw their examples at random draw the same ones.
    draws = len(ranks[0].rows) if take_same_examples(ranks) else int(taken.sum())
    if never > bound_undrawn_examples(len(examples), draws):
        detail = f"{never} of {len(examples)} examples of one process are never taken"
        return Fault("other data on a rank", DATA, detail, 0, ranks[0].data_line), ""
    if np.max(np.abs(taken - wanted)) > 1:
        return None, "not judged: examples are those of one process, drawn more or less often"
    once = "" if np.array_equal(wanted, taken) else " but for once"
    return None, f"over the whole run the examples of one process, as often{once}"


def find_overlap_fault(original: Process, ranks: Sequence[Process]) -> Fault | None:
    """Return a fault if shards overlap: two ranks take the same example before all examples were taken once.

    A program that does not shard its data has no such fault: each of its ranks may take any examples.
    """
    line, own = ranks[0].record.shard_line, original.rows
    if not line or not len(own):
        return None
    count = len(sort_distinct_rows(own))
    if len(sort_distinct_rows(own[:count])) < count:
        return None
    taken: list[list[Numbers]] = [[] for _ in ranks]
    for number, steps in enumerate(zip(*(p.steps for p in ranks), strict=False), 1):
        for rows, step in zip(taken, steps, strict=True):
            rows.append(np.zeros(0) if step.rows is None else step.rows)
        each = [np.concatenate(rows) for rows in taken]
        if sum(map(len, each)) > count:
            return None
        twice = sum(len(sort_distinct_rows(rows)) for rows in each) - len(
            sort_distinct_rows(np.concatenate(each))
        )
        if twice:
            detail = (
                f"two ranks take the same {number_of(twice, 'example', 'examples')}, which one process takes once. "
                "Shard the data before they are shuffled, or shuffle with the same seed on all ranks"
            )
            return Fault("shards overlap", DATA, detail, number, line)
    return None


def bound_undrawn_examples(examples: int, draws: int) -> float:
    """Return how many examples may be left out by `draws` random draws: three times the expected number, and a tenth of all."""
    return examples * (3.0 * float(np.exp(-draws / examples)) + 0.1)


def generate_own_data(original: Process, seeded: Sequence[Process]) -> bool:
    """Whether ranks generate their examples at random: with other seeds, none of their examples are the original's."""
    examples = sort_distinct_rows(original.rows)
    if not len(examples) or len(examples) > REUSED * len(original.rows):
        return False  # the examples may be changed at random
    others = [p.rows for p in seeded[1:]]  # rank 0 has the seed of the original
    return bool(others) and all(
        len(rows) > 0 and rows_missing_in(examples, rows) == len(rows) for rows in others
    )


def sort_distinct_rows(rows: Numbers) -> Numbers:
    """Return each distinct row once, sorted."""
    if not len(rows):
        return rows
    ordered = np.sort(rows)
    found: Numbers = ordered[np.concatenate([[True], np.diff(ordered) > row_tolerance(rows)])]
    return found


def find_nearest_examples(examples: Numbers, rows: Numbers) -> tuple[NDArray[np.intp], Numbers]:
    """Return, for each row, the index of the nearest of the sorted examples, and the distance to it."""
    after = np.clip(np.searchsorted(examples, rows), 1, max(1, len(examples) - 1))
    before = after - 1
    after = np.minimum(after, len(examples) - 1)
    nearer = np.abs(examples[before] - rows) <= np.abs(examples[after] - rows)
    places = np.where(nearer, before, after)
    return places, np.abs(examples[places] - rows)


def rows_missing_in(examples: Numbers, rows: Numbers) -> int:
    """Return how many rows are not among the examples."""
    return int(np.sum(find_nearest_examples(examples, rows)[1] > 2 * row_tolerance(examples)))


def count_rows(examples: Numbers, rows: Numbers) -> NDArray[np.intp]:
    """Count how often each example occurs among the rows."""
    return np.bincount(find_nearest_examples(examples, rows)[0], minlength=len(examples))


def find_foreign_row(examples: Numbers, process: Process) -> tuple[int, str]:
    """Return the number and the data line of the first step with a row that is not among the examples; 0 and "" for none."""
    for number, step in enumerate(process.steps, 1):
        if step.rows is not None and rows_missing_in(examples, step.rows):
            return number, process.data_line
    return 0, ""


# Rates


def check_rates_equal(moment: StepOfRanks) -> Fault | bool:
    """Check that all ranks have the same learning rate."""
    rates = [s.rate for s in moment.ranks]
    for rank, rate in enumerate(rates):
        if not is_close(rates[0], rate, 1e-6 * abs(rates[0])):
            detail = f"it is {rates[0]:.6g} on rank 0 and {rate:.6g} on rank {rank}"
            return moment.make_fault("other rate", RATE, detail, locate_rate(moment))
    return True


def check_rate(moment: StepOfRanks) -> Fault | bool:
    """Check that the learning rate equals the original's wherever the batch does."""
    assert moment.own is not None
    if isinstance(found := check_rates_equal(moment), Fault):
        return found
    own, rate = moment.own.rate, moment.ranks[0].rate
    if is_close(own, rate, moment.tolerance * abs(own)):
        return True
    detail = f"it is {rate:.6g}; {own:.6g} in one process"
    if own and is_close(rate / own, moment.size, 1e-3):
        detail += ", where all ranks together take no more examples a step"
        return moment.make_fault("rate scaled, batch not", RATE, detail, locate_rate(moment))
    return moment.make_fault("other rate", RATE, detail, locate_rate(moment))


def locate_rate(moment: StepOfRanks) -> str:
    """Return the line to blame for a wrong learning rate: the optimizer's in the first step, else the update's."""
    first = moment.ranks[0]
    return first.optimizer_line if moment.number == 1 else first.update_line


def find_scaling_fault(original: Process, ranks: Sequence[Process]) -> tuple[Fault | None, str]:
    """Check how the learning rate was scaled, where each rank takes a full batch.

    Returns:
        the fault or None, and what was found, in words.
    """
    own = {s.rate for s in original.steps}
    if not own or not ranks[0].steps:
        return None, ""
    if max(own) - min(own) > 1e-6 * max(own):
        return find_schedule_fault(original, ranks)
    size = len(ranks)
    number, step = max(enumerate(ranks[0].steps, 1), key=lambda s: (s[1].rate, -s[0]))
    ratio = step.rate / max(own)
    said = f"at most {step.rate:.6g}, {ratio:.3g} times that of one process"
    if is_close(ratio, size, 1e-3 * size):
        return None, said
    kind: Kind | None = None
    if is_close(ratio, 1.0, 1e-3):
        kind = "rate not scaled"
    elif is_close(ratio, size**2, 1e-3 * size**2):
        kind = "rate scaled twice"
    if kind is None:
        return None, f"not judged: {said}"
    detail = f"it is {said}, where {size} ranks take {size} times as many examples a step"
    return Fault(kind, RATE, detail, number, step.optimizer_line or step.update_line), ""


def find_schedule_fault(original: Process, ranks: Sequence[Process]) -> tuple[Fault | None, str]:
    """Compare the learning rates of a schedule at equal numbers of examples seen.

    Returns:
        the fault or None, and what was found, in words.
    """
    size = len(ranks)
    before, after = steps_by_statement(original.record), steps_by_statement(ranks[0].record)
    if len(before) != 1 or len(after) != 1 or not all(s.rows for s in (*before[0], *after[0])):
        return None, "not known: one process changes its rate"
    together = [replace(s, rows=s.rows * size, seen=s.seen * size) for s in after[0]]
    place = find_wrong_rate(before[0], together, size)
    line = ranks[0].steps[0].optimizer_line or after[0][0].line
    if place is None:
        return None, f"{size} times that of one process at as many examples seen"
    first = together[place]
    wrong = describe_rate_fault(before[0], together, size)
    if not wrong and place == 0 and is_close(first.rate, before[0][0].rate, 1e-3 * first.rate):
        later = (s.rate for s in together)
        wrong = "it is not scaled" * (max(later) <= (1 + 1e-3) * max(s.rate for s in before[0]))
    if not wrong:
        return (
            None,
            f"not judged: it is {first.rate:.6g} at step {place + 1}, and changes otherwise than in one process",
        )
    return Fault(
        "schedule not scaled",
        RATE,
        f"compared at as many examples seen, {wrong}",
        place + 1,
        line,
    ), ""


# Losses


def check_loss(moment: StepOfRanks) -> Fault | bool:
    """Check that the mean of the ranks' losses is the original's loss, or their sum if each was divided by the global batch."""
    own = moment.own
    assert own is not None
    losses = [s.loss for s in moment.ranks]
    if np.isnan([own.loss, *losses]).any():
        return False
    allowed = moment.tolerance * max(LEAST, abs(own.loss))
    if any(is_close(own.loss, float(v), allowed) for v in (np.mean(losses), np.sum(losses))):
        return True
    rows = {len(s.rows) for s in moment.ranks if s.rows is not None}
    said = f"the mean of the ranks' losses is {np.mean(losses):.6g}; {own.loss:.6g} in one process"
    line = moment.ranks[0].gradient_line
    record = moment.original.record
    if len(rows) > 1:
        detail = f"ranks take {' and '.join(map(str, sorted(rows)))} examples, and {said}"
        return moment.make_fault("unequal batches averaged without weights", LOSS, detail, line)
    if record.random_layers:
        raise UnjudgedError(
            f"step {moment.number} has another loss, as it may where {record.random_layers[0]} draws random numbers"
        )
    if record.normalizations:
        detail = f"`{record.normalizations[0]}` takes them over the examples of its rank; {said}"
        return moment.make_fault("moments of batch normalisation local", LOSS, detail, line)
    return moment.make_fault(
        "other loss", LOSS, f"weights and examples are equal, but {said}", line
    )


# Gradients


def fit_factor(vector: Numbers, reference: Numbers, allowed: float) -> float | None:
    """Return k where `vector` is k times `reference`; None if they are not proportional.

    Args:
        allowed: the tolerated rest, relative to k if that is larger than 1.
    """
    square = float(reference @ reference)
    if not square:
        return None
    factor = float(vector @ reference) / square
    rest = np.abs(vector - factor * reference)
    return factor if np.all(rest <= 10 * allowed * max(1.0, abs(factor))) else None


def step_factor(reference: Step, other: Step, aspect: str) -> float | None:
    """Return the factor between the losses or gradients of two steps; None if they are not proportional."""
    if aspect == LOSS:
        return other.loss / reference.loss if reference.loss else None
    allowed = 1e-3 * float(np.max(reference.applied[:, 1], initial=0.0))
    return fit_factor(other.applied[:, 0], reference.applied[:, 0], allowed)


def is_factor(factor: float | None, expected: float) -> bool:
    """Whether a factor is within one percent of the expected one; False for None."""
    return factor is not None and abs(factor / expected - 1.0) <= 1e-2


def average_local_gradients(ranks: Sequence[Step]) -> Numbers | None:
    """Average the projections of the gradients that each rank computed; None if some are unknown."""
    found = [s.gradients[:, 0] for s in ranks if s.gradients is not None]
    return np.mean(found, axis=0) if len(found) == len(ranks) else None


def scale_of(ranks: StepOfRanks, step: Step) -> float:
    """Return, for each variable of a step, the largest gradient norm so far; differences are relative to it."""
    norms = step.applied[:, 1]
    return ranks.largest.of((step.update_line, len(step.names)), *map(float, norms))


def find_gradient_divergence(moment: StepOfRanks, allowed: float) -> Fault | None:
    """Return a fault if a rank applies other gradients than rank 0."""
    zero = moment.ranks[0].applied[:, 0]
    for rank, step in enumerate(moment.ranks):
        apart = np.abs(step.applied[:, 0] - zero)
        if not np.any(apart > allowed):
            continue
        place = int(np.argmax(apart))
        count = int(np.sum(apart > allowed))
        name = step.names[place]
        what = f"{count} of {len(apart)} gradients differ between rank 0 and {rank}"
        detail = f"{what}, that for `{name}` by {apart[place] / (allowed / moment.tolerance):.2g} of its size"
        return moment.make_fault("not averaged", GRADIENTS, detail, index=place)
    return None


def check_gradients(moment: StepOfRanks) -> Fault | bool:
    """Check that each rank applies the gradients that the original applies."""
    own = moment.own
    assert own is not None
    wanted = own.applied[:, 0]
    scale = scale_of(moment, own)
    allowed = moment.tolerance * scale
    if found := find_gradient_divergence(moment, max(allowed, RANKS_TOLERANCE * scale)):
        return found
    given = moment.ranks[0].applied[:, 0]
    apart = np.abs(given - wanted)
    if np.all(apart <= allowed) or np.isnan(wanted).any():
        return True
    place = int(np.nanargmax(apart))
    name = moment.ranks[0].names[place]
    factor = fit_factor(given, wanted, allowed)
    detail = f"the gradient for `{name}` differs by {apart[place] / scale:.2g} of its size from that of one process"
    rows = {len(s.rows) for s in moment.ranks if s.rows is not None}
    mean = average_local_gradients(moment.ranks)
    changes = own.gradients is not None and np.any(np.abs(own.gradients[:, 0] - wanted) > allowed)
    kind: Kind = "other gradients"
    if is_factor(factor, moment.size):
        kind, detail = (
            "summed instead of averaged",
            f"all gradients are {moment.size} times those of one process",
        )
    elif is_factor(factor, 1 / moment.size):
        kind, detail = (
            "averaged twice",
            f"all gradients are 1/{moment.size} of those of one process",
        )
    elif len(rows) > 1:
        kind = "unequal batches averaged without weights"
    elif own.gradients is not None and mean is not None:
        norm = max(scale, float(np.max(own.gradients[:, 1])))
        if np.all(np.abs(mean - own.gradients[:, 0]) <= moment.tolerance * norm):
            if not changes and np.all(apart <= HALF_PRECISION * norm):
                raise UnjudgedError(
                    f"step {moment.number} applies gradients that are rounded to half precision, as `hvd.Compression.fp16` does"
                )
            kind = "clipped before averaging" if changes else "gradients changed before the update"
            if changes and np.all(np.abs(given - mean) <= moment.tolerance * norm):
                kind = "gradients not changed before the update"
    return moment.make_fault(kind, GRADIENTS, detail, index=place)


def check_averaging(moment: StepOfRanks) -> Fault | bool:
    """Check that all ranks apply the mean of the gradients that they computed, if the original applies its own unchanged."""
    first = moment.ranks[0]
    scale = scale_of(moment, first)
    allowed = moment.tolerance * scale
    if found := find_gradient_divergence(moment, allowed):
        return found
    mean = average_local_gradients(moment.ranks)
    own = moment.original.steps[0] if moment.original.steps else None
    if mean is None or own is None or own.gradients is None:
        return True
    norm = float(np.max(own.applied[:, 1], initial=0.0))
    if np.any(np.abs(own.gradients[:, 0] - own.applied[:, 0]) > moment.tolerance * norm):
        return True  # it clips, so that no more than equal gradients can be asked for
    if np.all(np.abs(first.applied[:, 0] - mean) <= max(HALF_PRECISION, moment.tolerance) * scale):
        return True  # `hvd.Compression.fp16` rounds them
    factor = fit_factor(first.applied[:, 0], mean, allowed)
    size = moment.size
    if is_factor(factor, size):
        losses = [s.loss for s in moment.ranks]
        alone = [s.loss for s in moment.original.steps[:size]]  # of about the same examples
        if moment.number > 1 or np.mean(losses) < np.mean(alone) / np.sqrt(size):
            return True  # each loss was divided by the examples of all ranks
        detail = f"the gradients are {size} times the mean of the ranks'"
        return moment.make_fault("summed instead of averaged", GRADIENTS, detail)
    if is_factor(factor, 1 / size):
        detail = f"the gradients are 1/{size} of the mean of the ranks'"
        return moment.make_fault("averaged twice", GRADIENTS, detail)
    place = int(np.argmax(np.abs(first.applied[:, 0] - mean)))
    detail = f"the gradient for `{first.names[place]}` is not the mean of the ranks'"
    return moment.make_fault("gradients changed before the update", GRADIENTS, detail, index=place)


# Updates


def check_ranks_after(moment: StepOfRanks) -> Fault | bool:
    """Check that ranks with equal weights, gradients and rates have equal weights after the step."""
    found = find_rank_divergence([s.after for s in moment.ranks])
    if found is None:
        return True
    if find_rank_divergence([s.before for s in moment.ranks]) is not None:
        return False
    rank, place, amount = found
    name = moment.ranks[0].names[place]
    detail = (
        f"weights, gradients and rate are equal, but after the update `{name}` differs by {amount:.2g} between "
        f"rank 0 and {rank}"
    )
    return moment.make_fault("optimizer state not broadcast", UPDATE, detail, index=place)


def check_update(moment: StepOfRanks) -> Fault | bool:
    """Check that each variable changes as it does in one process."""
    own = moment.own
    assert own is not None
    if isinstance(found := check_ranks_after(moment), Fault):
        return found
    apart, largest = update_difference(own, moment.ranks[0])
    excess = apart / allowed_difference(own) * mask_compared_variables(moment)
    if not excess.size or not np.nanmax(excess) > 1.0:
        return True
    place = int(np.nanargmax(excess))
    name = moment.ranks[0].names[place]
    differs = f"differs by {apart[place] / (largest or 1.0):.2g} of its size"
    detail = f"gradients and rate are equal, but the change of `{name}` {differs}"
    line = moment.ranks[0].optimizer_line
    return moment.make_fault("other update", UPDATE, detail, line, index=place)


def update_difference(reference: Step, other: Step) -> tuple[Numbers, float]:
    """Return how much the changes of each variable differ, and the largest change."""
    return np.abs(other.change - reference.change), float(
        np.max(np.abs(reference.change), initial=0.0)
    )


def allowed_difference(reference: Step) -> Numbers:
    """Return the tolerated difference of each variable's change."""
    largest = np.max(np.abs(reference.change), initial=0.0)
    allowed: Numbers = UPDATE_TOLERANCE * largest + VALUE_ROUNDING * np.maximum(
        1.0, reference.after[:, 1]
    )
    return allowed


def mask_compared_variables(moment: StepOfRanks) -> Numbers:
    """Return 1 for each variable that is compared with the original's, 0 for the others."""
    assert moment.own is not None
    return np.array([float(name not in moment.ignored) for name in moment.own.names])


def find_rounding_variables(original: Process, rounded: Process) -> frozenset[str]:
    """Return the names of the variables whose first change is only rounding error.

    The true gradient of a bias before a normalization is 0, and Adam divides its rounding error by its own size.
    """
    if not (original.steps and rounded.steps):
        return frozenset()
    own, other = original.steps[0], rounded.steps[0]
    if own.names != other.names:
        return frozenset()
    moved = update_difference(own, other)[0] > allowed_difference(own)
    return frozenset(name for name, is_moved in zip(own.names, moved, strict=True) if is_moved)


# The whole run


def find_exit_fault(ranks: Sequence[Process]) -> Fault | None:
    """Return a fault if a rank ends before the others."""
    begun = [p.begun for p in ranks]
    if len(set(begun)) < 2:
        return None
    short = min(range(len(ranks)), key=lambda r: begun[r])
    longest = max(ranks, key=lambda p: p.begun)
    sites = [longest.record.sites[event.site] for event in longest.record.events]
    lines = [site.line for site in sites if site.kind in ("gradient", "update")]
    line = lines[-1] if lines else ""
    detail = (
        f"rank {short} makes {begun[short]} steps, and another one begins its step {max(begun)}"
    )
    return Fault("early exit on one rank", COUNT, detail, begun[short] + 1, line)


def find_count_fault(original: Process, ranks: Sequence[Process]) -> Fault | None:
    """Return a fault if an exact training makes another number of steps than the original."""
    own, theirs = original.record.steps, ranks[0].record.steps
    if own == theirs:
        return None
    line = ranks[0].record.sites[-1].line if ranks[0].record.sites else ""
    detail = f"it makes {theirs} steps; one process {own}"
    return Fault("other number of steps", COUNT, detail, min(own, theirs) + 1, line)


def find_scaled_count_fault(original: Process, ranks: Sequence[Process]) -> Fault | None:
    """Return a fault if ranks with full batches make as many steps as one process, instead of an N-th."""
    own, theirs = len(original.rows), sum(len(p.rows) for p in ranks)
    steps = ranks[0].record.steps
    if not own or original.record.stopped or steps < original.record.steps:
        return None
    if theirs / own < len(ranks) - MORE_EXAMPLES:
        return None
    line = ranks[0].steps[-1].update_line
    detail = (
        f"{steps} steps on {theirs} examples over all ranks; one process {original.record.steps} on {own}. Divide the steps by "
        "the number of ranks, unless the program is a benchmark of fixed length"
    )
    return Fault("number of steps not divided", COUNT, detail, original.record.steps, line)


def find_metric_fault(original: Process, ranks: Sequence[Process], tolerance: float) -> tuple[Fault | None, str]:  # fmt: skip
    """Compare rank 0's curves with the original's: a metric must be the mean over ranks.

    Returns:
        the fault or None, and what was found, in words.
    """
    own = original.record
    compared = compare_histories(own, ranks[0].record, tolerance)
    if not compared.differences:
        return None, compared.observed
    for number, fit in enumerate(own.fits):
        others = [p.record.fits[number] for p in ranks if len(p.record.fits) > number]
        if len(others) < len(ranks):
            break
        for name, curve in fit.curves.items():
            theirs = [other.curves.get(name, ()) for other in others]
            if not curve_differs(curve, theirs, tolerance):
                continue
            said = f"`{name}` of rank 0 is {theirs[0][-1]:.6g}"
            if is_mean(curve, theirs, tolerance):
                detail = f"{said}, the mean over ranks {curve[-1]:.6g}"
                return Fault("metric of one rank", METRICS, detail, 0, others[0].line), ""
            # How a training's own curves are kept is the program's business; an evaluation is Keras' own.
            if name.startswith(EVALUATED):
                detail = f"{said}; {curve[-1]:.6g} in one process, where weights are equal"
                return Fault("other history", METRICS, detail, 0, others[0].line), ""
    return None, f"not judged: {compared.differences[0]}"


Curve = Sequence[float]


def curve_differs(original: Curve, of_ranks: Sequence[Curve], tolerance: float) -> bool:
    """Whether rank 0's curve, the first of `of_ranks`, differs from the original's; False if lengths differ."""
    if any(len(values) != len(original) for values in of_ranks):
        return False
    return bool(
        np.any(
            np.abs(np.array(of_ranks[0]) - np.array(original))
            > curve_tolerance(original, tolerance)
        )
    )


def is_mean(curve: Curve, of_ranks: Sequence[Curve], tolerance: float) -> bool:
    """Whether a curve is the mean of the ranks' curves."""
    apart = np.abs(np.mean(of_ranks, axis=0) - np.array(curve))
    return bool(np.all(apart <= curve_tolerance(curve, tolerance)))


def curve_tolerance(curve: Curve, tolerance: float) -> float:
    """Return the absolute tolerance for a curve from a relative one."""
    return tolerance * max(LEAST, float(np.max(np.abs(curve), initial=0.0)))


def find_mode(original: Process, ranks: Sequence[Process]) -> tuple[Mode | None, str]:
    """Infer whether the ranks should shard the original's batches ("exact") or take a batch each ("scaled"), and say why."""
    size = len(ranks)
    if not any(p.steps for p in ranks):
        return None, "no update by an optimizer was observed in the other program"
    own, theirs = original.batch_size, max(p.batch_size for p in ranks)
    if own and theirs:
        said = f"{theirs} examples a step and rank, {own} in one process"
        if theirs * size <= own + size - 1:
            return "exact", said
        if theirs == own:
            return "scaled", said
    rates = [p.steps[0].rate for p in (original, ranks[0]) if p.steps]
    if len(rates) == 2 and rates[0]:
        said = f"the rate is {rates[1]:.6g}, {rates[0]:.6g} in one process"
        if is_close(rates[1] / rates[0], 1.0, 1e-3):
            return "exact", said
        if is_close(rates[1] / rates[0], size, 1e-3 * size):
            return "scaled", said
    return None, "neither from batches nor from rates; say it by --batch global or --batch per-rank"
