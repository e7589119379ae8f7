"""Judges the runs of both programs: comparisons step by step, and faults of full runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from ..checks import Check
from ..exact.compare import number_of
from ..exact.verification import SLACK, name_check
from .faults import (
    BEFORE,
    BROADCAST,
    COUNT,
    DATA,
    GRADIENTS,
    LOSS,
    METRICS,
    RATE,
    UPDATE,
    Fault,
    Kind,
    Mode,
    StepComparison,
    compare_ranks,
    compare_with_original,
    find_count_fault,
    find_data_fault,
    find_exit_fault,
    find_metric_fault,
    find_overlap_fault,
    find_rounding_variables,
    find_scaled_count_fault,
    find_scaling_fault,
    generate_own_data,
    step_factor,
    take_same_examples,
)
from .steps import Process

#: In which one thing follows from another within a step.
ORDER = (BEFORE, DATA, RATE, LOSS, GRADIENTS, UPDATE)
#: What a comparison of the ranks with one another shows, whatever the original does.
BETWEEN_RANKS: frozenset[Kind] = frozenset(
    {"not averaged", "weights not broadcast", "optimizer state not broadcast"}
)
MOMENTS: Kind = "moments of batch normalisation local"
OTHER_DATA: Kind = "other data on a rank"
#: The other program on one rank, compared with the original.
ONE_RANK = "the program on 1 rank"
#: The check that says how many steps were compared with the original.
COMPARED = "steps compared"
#: The part of all steps that must have been compared before a program is called right.
ENOUGH = 0.5
#: What ranks that begin with other random numbers show is at their second step.
SECOND_STEP = 2


@dataclass(frozen=True)
class Judgement:
    """The findings about a distributed program, by aspect.

    Attributes:
        paired: the step-by-step comparison with the original. between: the comparison of the ranks with each other.
        faults: those of full runs. said: other findings, in words.
        noise: why a difference from the original proves nothing.
        one_rank: the comparison of the distributed program on one rank with the original, which isolates what N ranks do
            differently; None where it was not run. own_fault: the fault that exists on one rank already.
        steps: how many steps the original made. made: how many the ranks made.
        mode: whether ranks shard the original's batches or take a batch each.
    """

    paired: StepComparison
    between: StepComparison
    faults: tuple[Fault, ...]
    said: Mapping[str, str]
    noise: str = ""
    one_rank: StepComparison | None = None
    own_fault: Fault | None = None
    steps: int = 0
    made: int = 0
    mode: Mode = "exact"

    @property
    def all_faults(self) -> list[Fault]:
        """All faults, those of full runs first; of the two step-by-step comparisons only the earlier fault counts."""
        paired = None if self.noise or self.design_difference else self.paired.fault
        if paired is not None and paired.kind == MOMENTS and self.own_fault is not None:
            paired = None
        walks = [f for f in (paired, self.between.fault, self.own_fault) if f is not None]
        return [*self.faults, *sorted(walks, key=lambda fault: fault.step)[:1]]

    @property
    def design_difference(self) -> str:
        """A difference by design, in words: batch normalization with local moments, as in Horovod's examples; "" for none.

        The run on one rank, which has all rows, shows that nothing else differs.
        """
        fault = self.paired.fault
        if fault is None or fault.kind != MOMENTS or self.one_rank is None or self.own_fault:
            return ""
        steps = self.one_rank.counts[UPDATE]
        alone = (
            f"on 1 rank the first {number_of_steps(steps)} are equal"
            if steps
            else "on 1 rank nothing could be compared"
        )
        return f"moments are local from step {fault.step} on: {fault.detail}; {alone}"

    @property
    def first_fault(self) -> Fault | None:
        """The earliest fault; a data fault goes first since it explains others."""
        order = lambda f: (f.aspect != DATA, f.step or float("inf"))  # noqa: E731
        return min(self.all_faults, key=order, default=None)

    @property
    def why_unjudged(self) -> str:
        """Why steps were not compared with those of the original."""
        return self.noise or self.design_difference or self.paired.unjudged

    @property
    def compared_steps(self) -> int:
        """The number of steps that were compared and are equal."""
        return self.paired.counts[UPDATE]

    @property
    def is_compared_enough(self) -> bool:
        """Whether most steps were compared with those of the original, on N ranks or on one, as far as the mode allows."""
        alone = 0 if self.one_rank is None else self.one_rank.counts[UPDATE]
        return self.mode == "scaled" or max(self.compared_steps, alone) >= ENOUGH * self.steps

    @property
    def needs_noise(self) -> bool:
        """Whether a fault may come from rounding, or from an original that does not train reproducibly."""
        fault = self.first_fault
        if fault is None or fault.kind in BETWEEN_RANKS:
            return False
        return fault is self.paired.fault or fault.kind == OTHER_DATA

    @property
    def needs_own_seeds(self) -> bool:
        """Whether a run with different seeds on each rank may find an earlier fault, or explain the known one."""
        fault = self.first_fault
        return fault is None or fault.aspect in (DATA, COUNT) or not 0 < fault.step <= SECOND_STEP

    @property
    def needs_one_rank(self) -> bool:
        """Whether a run on one rank could show what the comparison of N ranks cannot."""
        fault = self.first_fault
        if self.one_rank is not None or self.noise:
            return False
        return bool(self.paired.unjudged) if fault is None else fault.kind == MOMENTS

    def list_checks(self, size: int) -> Iterator[Check]:
        """Yield the table's checks, one for each aspect."""
        faults = {fault.aspect: fault for fault in reversed(self.all_faults)}
        if self.one_rank is not None:
            yield self.one_rank_check()
        if self.first_fault is None and self.mode == "exact":
            yield self.check_coverage(size)
        for aspect in (BEFORE, DATA, RATE, LOSS, GRADIENTS, UPDATE, BROADCAST, COUNT, METRICS):
            name, said = name_check(size, aspect), self.said.get(aspect, "")
            paired, between = self.paired.counts[aspect], self.between.counts[aspect]
            if aspect in faults:
                yield Check(name, "fail", str(faults[aspect]))
            elif said:
                yield Check(name, "unknown" if said.startswith("not ") else "pass", said)
            elif paired or between:
                enough = max(paired, between) >= ENOUGH * self.made
                texts = []
                if paired:
                    texts.append(f"as in one process in {describe_step_count(paired, self.steps)}")
                if between > paired:
                    texts.append(
                        f"right between ranks in {describe_step_count(between, self.made)}"
                    )
                texts += [] if paired else ["not compared with one process"]
                yield Check(name, "pass" if enough else "unknown", "; ".join(texts))
            else:
                text = f"not judged: {self.why_unjudged}" if self.why_unjudged else "not observed"
                yield Check(name, "unknown", text)

    def check_coverage(self, size: int) -> Check:
        """Return the check that says how many steps were compared with the original's."""
        text = f"{self.compared_steps} of {number_of_steps(self.steps)} on {size} ranks"
        if self.one_rank is not None:
            text += f", {self.one_rank.counts[UPDATE]} on 1 rank"
        if self.why_unjudged:
            text += f": {self.why_unjudged}"
        return Check(
            name_check(size, COMPARED), "pass" if self.is_compared_enough else "unknown", text
        )

    def one_rank_check(self) -> Check:
        """Return the check for the distributed program on one rank."""
        assert self.one_rank is not None
        if self.own_fault is not None:
            return Check(ONE_RANK, "fail", str(self.own_fault))
        reason = self.one_rank.unjudged
        if self.one_rank.fault is not None:
            reason = f"it takes N for given: {self.one_rank.fault}"
        steps = self.one_rank.counts[UPDATE]
        if not steps:
            return Check(ONE_RANK, "unknown", f"not judged: {reason or 'not observed'}")
        said = f"as the original in one process in {number_of_steps(steps)}"
        return Check(
            ONE_RANK, "pass", f"{said}; later ones were not compared: {reason}" if reason else said
        )


def number_of_steps(count: int) -> str:
    """Return a number of steps as text; "" for 0."""
    return number_of(count, "step", "steps")


def describe_step_count(count: int, total: int) -> str:
    """Return `3 steps`, or `3 of 21 steps`."""
    return f"{count} of {number_of_steps(total)}" if count < total else number_of_steps(count)


def judge_runs(
    original: Process,
    ranks: tuple[Process, ...],
    seeded: tuple[Process, ...],
    mode: Mode,
    tolerance: float,
    noise: tuple[Process, ...] = (),
    alone: Process | None = None,
) -> Judgement:
    """Judge a distributed program from the records of all runs.

    Args:
        original: the original's run. ranks: the run with equal seeds. seeded: the run with a seed for each rank; empty where it
            failed.
        noise: two more runs of the original, the second with other rounding.
        alone: the distributed program on one rank; None where it was not run.
    """
    faults: list[Fault | None] = [find_exit_fault(ranks)]
    said: dict[str, str] = {}
    paired = StepComparison(
        Counter(), unjudged="each rank takes a full batch, and one process one of them"
    )
    if mode == "exact":
        paired = compare_with_original(original, ranks, tolerance)
    reason = ""
    if noise and paired.fault is not None:
        ignored = find_rounding_variables(original, noise[-1])
        paired = compare_with_original(original, ranks, tolerance, ignored)
        again = (compare_with_original(original, [p], tolerance, ignored) for p in noise)
        reason = explain_by_noise(paired.fault, *again) if paired.fault is not None else ""
    if take_same_examples(ranks) and (not seeded or take_same_examples(seeded)):
        line = ranks[0].data_line
        detail = f"all {len(ranks)} ranks take equal examples at each step"
        faults.append(Fault("the same data on all ranks", DATA, detail, 1, line))
    elif overlap := find_overlap_fault(original, ranks) or (
        seeded and find_overlap_fault(original, seeded)
    ):
        faults.append(overlap)
    elif paired.unjudged or not paired.counts[DATA]:
        fault, said[DATA] = find_data_fault(original, ranks)
        if fault is not None and noise and find_data_fault(original, noise[:1])[0] is not None:
            reason = reason or f"{RANDOM_ORIGINAL} from step 1 on (they take other examples)"
            fault, said[DATA] = None, f"not judged: {reason}"
        faults.append(fault)
    between = compare_ranks(original, ranks, tolerance)
    own_seeds = compare_ranks(original, seeded, tolerance) if seeded else StepComparison(Counter())
    if own_seeds.fault is not None and between.fault is None:
        faults.append(replace(own_seeds.fault, aspect=BROADCAST))
    elif own_seeds.fault is None and own_seeds.counts[UPDATE]:
        equal_start = own_seeds.counts[BEFORE] == len(seeded[0].steps)
        after = "from the first step on" if equal_start else "after the first step"
        said[BROADCAST] = f"ranks with other random numbers have equal weights {after}"
    if mode == "scaled":
        fault, said[RATE] = find_scaling_fault(original, ranks)
        faults.append(fault)
        fault = find_scaled_count_fault(original, ranks)
        said[COUNT] = (
            f"{ranks[0].record.steps} on each rank; {original.record.steps} in one process"
        )
        if fault is not None and generate_own_data(original, seeded):
            said[COUNT] = (
                f"not judged: each rank makes {ranks[0].record.steps} steps, as one process does, on examples of its own, "
                "as in a benchmark; a training would make 1/N of them"
            )
            fault = None
        faults.append(fault)
    else:
        faults.append(find_count_fault(original, ranks))
        said[COUNT] = f"{original.record.steps} steps"
        if paired.fault is None and not paired.unjudged:
            fault, said[METRICS] = find_metric_fault(original, ranks, tolerance)
            faults.append(fault)
    one_rank = None if alone is None else compare_with_original(original, [alone], tolerance)
    own_fault = None if alone is None else find_own_fault(original, alone, one_rank, len(ranks))
    found = tuple(f for f in faults if f is not None)
    steps = max(original.record.steps, len(original.steps))
    made = min((max(p.record.steps, len(p.steps)) for p in ranks), default=0)
    return Judgement(paired, between, found, said, reason, one_rank, own_fault, steps, made, mode)


@dataclass(frozen=True)
class MoreRuns:
    """Functions that make additional runs if the judgement needs them.

    Attributes:
        again: runs the original twice more, the second time with other rounding.
        one_rank: runs the distributed program on one rank; returns None where that is not possible.
        own_seeds: runs a few steps with a seed for each rank; returns () where that fails.
    """

    again: Callable[[], tuple[Process, ...]]
    one_rank: Callable[[], Process | None]
    own_seeds: Callable[[], tuple[Process, ...]]


def judge_with_more_runs(
    more: MoreRuns, original: Process, ranks: tuple[Process, ...], mode: Mode, tolerance: float
) -> Judgement:
    """Judge a distributed program, and make more runs as long as the judgement needs them. See `judge_runs`."""
    noise: tuple[Process, ...] = ()
    alone: Process | None = None
    judgement = judge_runs(original, ranks, (), mode, tolerance)
    if judgement.needs_noise:
        noise = more.again()
        judgement = judge_runs(original, ranks, (), mode, tolerance, noise)
    if judgement.needs_one_rank:
        alone = more.one_rank()
        judgement = judge_runs(original, ranks, (), mode, tolerance, noise, alone)
    if judgement.needs_own_seeds:
        judgement = judge_runs(original, ranks, more.own_seeds(), mode, tolerance, noise, alone)
    return judgement


def find_step_fault(
    original: Process, ranks: tuple[Process, ...], mode: Mode | None, tolerance: float
) -> Fault | None:
    """Return the first fault of a step that all ranks completed; a later failure of the ranks may be its consequence."""
    between = compare_ranks(original, ranks, tolerance)
    walks = (
        [compare_with_original(original, ranks, tolerance), between]
        if mode == "exact"
        else [between]
    )
    faults = [walk.fault for walk in walks if walk.fault is not None]
    return min(faults, key=lambda fault: fault.step, default=None)


def find_own_fault(
    original: Process, alone: Process, one_rank: StepComparison | None, size: int
) -> Fault | None:
    """Return the fault that the distributed program has on one rank already, whatever number of ranks it was written for.

    A program with a hard-coded number of ranks N divides its loss or gradients by N, or multiplies its rate by N, here too.
    """
    fault = None if one_rank is None else one_rank.fault
    if fault is None or fault.aspect not in (LOSS, GRADIENTS):
        return None
    factor = step_factor(original.steps[fault.step - 1], alone.steps[fault.step - 1], fault.aspect)
    if factor is not None and any(abs(factor / known - 1) < 1e-2 for known in (size, 1 / size)):
        return None
    kind: Kind = "other loss" if fault.kind == MOMENTS else fault.kind  # one rank has all rows
    return replace(fault, kind=kind, detail=f"on 1 rank already, {fault.detail}")


#: How the reason begins for which nothing can be compared with an original that is random beyond its seeds.
RANDOM_ORIGINAL = "two runs of the original with equal seeds differ"


def explain_by_noise(fault: Fault, again: StepComparison, rounded: StepComparison) -> str:
    """Say why a difference from the original proves nothing about the ranks; "" where it does prove a fault.

    Args:
        again: the comparison of the original with a second run. rounded: with a run that has other rounding.
    """
    said = RANDOM_ORIGINAL
    for noise, slack in ((again, 1), (rounded, SLACK)):
        begins = noise.fault.step if noise.fault is not None else noise.counts[BEFORE] + 1
        if noise.fault is None and not noise.unjudged:
            begins = 0
        aspect = noise.fault.aspect if noise.fault is not None else BEFORE
        later = begins == fault.step and ORDER.index(aspect) > ORDER.index(fault.aspect)
        if begins and begins <= slack * fault.step and not later:
            by = f" ({noise.fault.detail})" if noise.fault is not None else ""
            return f"{said} from step {begins} on{by}"
        said = "in one process, too, rounding makes such differences"
    return ""
