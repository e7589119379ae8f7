"""Runs a program in one process, another one for the same training on N ranks, and judges the other."""

from __future__ import annotations

import socket
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ...documents import Document
from ...launchers.hosts import LaunchError, hosts_for
from ...launchers.job import TIMED_OUT
from ...launchers.reaper import private_folder
from ...rank.forks import forkservers
from .. import checks
from ..checks import Check
from ..exact.compare import TOLERANCE, number_of
from ..exact.rank import SEEDS_VARIABLE, WORKERS_VARIABLE, last_line, limits
from ..exact.verification import (
    PRELOADED,
    REFERENCE,
    SLACK,
    Run,
    Runner,
    named,
    no_end,
    no_reference,
    said_of,
)
from ..workspace import changed, check_room, state_beside
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
    Walk,
    compare_ranks,
    compare_with_original,
    find_count_fault,
    find_data_fault,
    find_exit_fault,
    find_metric_fault,
    find_mode,
    find_scaling_fault,
    have_same_data,
    variables_of_rounding,
)
from .steps import Process, process_of

#: What a program that is distributed by `tf.distribute` has in it.
BY_TENSORFLOW = "MultiWorkerMirroredStrategy"
#: In which one thing follows from another within a step.
ORDER = (BEFORE, DATA, RATE, LOSS, GRADIENTS, UPDATE)
#: Steps of the run in which each rank has a seed of its own: a broadcast shows at the second.
STEPS_OF_OWN_SEEDS = 3
#: What a comparison of the ranks with one another shows, whatever the original does.
BETWEEN_RANKS: frozenset[Kind] = frozenset(
    {"not averaged", "weights not broadcast", "optimizer state not broadcast"}
)
#: What must have been seen to be right before a program is called right.
REQUIRED = (GRADIENTS, UPDATE, BROADCAST)


@dataclass(frozen=True)
class AgainstVerification:
    """The outcome of all checks.

    Attributes:
        mode: whether the ranks share the original's batches ("exact") or take one each ("scaled"); None where that is not known.
        fault: the first one, of which others may be consequences. steps: how many one process made.
        compared: how many of them were compared with steps of the other program. unjudged: why not all of them.
    """

    checks: tuple[Check, ...]
    size: int
    mode: Mode | None = None
    steps: int = 0
    fault: Fault | None = None
    compared: int = 0
    unjudged: str = ""

    @property
    def fails(self) -> bool:
        return any(check.status == "fail" for check in self.checks)

    @property
    def holds(self) -> bool:
        """Whether no check fails, and ranks were seen to average their gradients and to stay equal."""
        seen = {check.check for check in self.checks if check.status == "pass"}
        return not self.fails and all(named(self.size, aspect) in seen for aspect in REQUIRED)

    @property
    def verdict(self) -> str:
        """The outcome in a sentence or two."""
        if self.fault is not None:
            return (
                f"The other program does not train as it should. It looks like this: {self.fault}."
            )
        if self.fails:
            return "The other program does not train as it should."
        if not self.holds:
            return "This training cannot be judged: too little of it could be compared."
        same = "the other program trains as the original does in one process"
        if self.compared and self.compared == self.steps:
            return f"On {self.size} ranks {same}, as far as it was observed."
        if self.compared:
            same += f" for {self.compared} of {self.steps} steps"
            return f"On {self.size} ranks {same}. Later ones were not compared: {self.unjudged}."
        return (
            f"On {self.size} ranks no error was found: they begin with equal weights, average their gradients and stay equal. "
            f"Losses and weights were not compared with the original: {self.unjudged}."
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "mode": self.mode,
            "verdict": self.verdict,
            "ranks": self.size,
            "steps": self.steps,
            "compared": self.compared,
            "unjudged": self.unjudged,
            "checks": [check.as_json() for check in self.checks],
            "fault": None if self.fault is None else asdict(self.fault),
            "holds": self.holds,
        }


@dataclass(frozen=True)
class Program:
    """A notebook or script, and what it holds."""

    path: Path
    document: Document


def verify_against(
    original: Program,
    other: Program,
    size: int = 2,
    *,
    variables: Mapping[str, str],
    mode: Mode | None = None,
    steps: int | None = None,
    timeout: float = 300.0,
    tolerance: float = TOLERANCE,
    beside: Path | None = None,
    confirmed: bool = False,
    listener: Callable[[Check], None] = lambda _: None,
) -> AgainstVerification:
    """Judge a program that distributes its training itself, by running it beside the original.

    The other program runs twice: with equal seeds on all ranks, to be compared with one process, and for a few steps with other
    seeds, as its ranks have them in a real job.

    Args:
        original: for one process. other: for `size` ranks; both are only read.
        variables: the environment of all processes, the seed among them.
        mode: what the batches of the ranks are meant to be; found out if None.
        steps: each run ends after so many training steps; None for the whole program.
        timeout: seconds for each run.
        tolerance: the part of the largest number of its kind by which a loss or gradient may differ.
        beside: the folder whose files the original has copies of, that of its file if None.
        confirmed: the user knows that there is much to copy.
        listener: hears of each check as it begins and ends.

    Raises:
        UnusableInputError: there is no room for the copies.
        LaunchError: the job cannot be started.
        UnconfirmedError: there is much to copy.
    """
    hosts_for(size, None)
    if size < 2 or (steps is not None and steps < 1) or not timeout > 0:
        raise LaunchError(f"{size} ranks, {steps} steps within {timeout:g} s: needs 2, 1 and more than 0")  # fmt: skip
    folders = ((beside or original.path.parent).resolve(), other.path.parent.resolve())
    found: list[Check] = []

    def tell(check: Check) -> None:
        found.append(check)
        listener(check)

    with private_folder() as folder, forkservers(folder.path, folder.job, PRELOADED) as forks:
        for source in dict.fromkeys(folders):
            check_room(source, folder.path, copies=3 + 2 * size, confirmed=confirmed)
        untouched = {source: state_beside(source, folder.path) for source in folders}
        environment = {**variables, **forks}
        alone, distributed = (
            Runner(p.path, p.document, folder, source, timeout, environment, listener)
            for p, source in zip((original, other), folders, strict=True)
        )
        refused: list[str] = []

        def conclude(made: int = 0, **found_out: Any) -> AgainstVerification:
            changes = [
                name
                for source, before in untouched.items()
                for name in changed(before, state_beside(source, folder.path))
                if source / name not in (original.path.resolve(), other.path.resolve())
            ]
            tell(checks.files_untouched(refused, changes))
            return AgainstVerification(tuple(found), size, steps=made, **found_out)

        seconds = timeout / size
        reference = alone.alone(REFERENCE, limits(steps, seconds, details=True))
        one = reference.first
        if one is None or not one.steps or one.error:
            said = no_reference(reference, timeout) if one is None else said_of(one, seconds)
            tell(Check(REFERENCE, "unknown", said))
            return conclude()
        refused += one.refused
        tell(Check(REFERENCE, "pass", said_of(one, seconds)))
        own = process_of(one)
        limit = limits(one.steps if one.stopped else None, details=True)
        limit = {**limit, SEEDS_VARIABLE: "same", **workers_for(other.document, size)}
        job = distributed.on_ranks(named(size, "training"), size, limit, one.steps)
        ranks = processes_of(job)
        refused += [name for p in ranks for name in p.record.refused]
        if job.code or len(ranks) < size:
            check, fault = judge_ending(job, ranks, size, timeout)
            tell(check)
            return conclude(one.steps, mode=mode, fault=fault)
        tell(Check(named(size, "ending"), "pass", "all ranks end without an error"))
        short = limits(STEPS_OF_OWN_SEEDS, details=True)
        differing = {**short, SEEDS_VARIABLE: "each", **workers_for(other.document, size)}
        again = distributed.on_ranks(named(size, "own seeds"), size, differing, STEPS_OF_OWN_SEEDS)
        seeded = processes_of(again) if not again.code else ()
        if mode is None:
            mode, reason = find_mode(own, ranks)
            if mode is None:
                tell(Check(named(size, "batches"), "unknown", f"not known: {reason}"))
                return conclude(one.steps)
            tell(Check(named(size, "batches"), "pass", f"{mode}: {reason}"))
        judgement = judge(own, ranks, seeded, mode, tolerance)
        if judgement.needs_noise:
            noise = run_again(alone, one.steps if one.stopped else None, one.steps)
            judgement = judge(own, ranks, seeded, mode, tolerance, noise)
        for check in judgement.checks(size):
            tell(check)
        return conclude(
            one.steps,
            mode=mode,
            fault=judgement.first,
            compared=judgement.compared,
            unjudged=judgement.unjudged,
        )


def workers_for(document: Document, size: int) -> Mapping[str, str]:
    """The variable that tells the ranks how to reach one another, where a program is distributed by `tf.distribute`."""
    if not any(BY_TENSORFLOW in source for source in document.sources.values()):
        return {}
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(size)]
        return {WORKERS_VARIABLE: ",".join(f"127.0.0.1:{s.getsockname()[1]}" for s in sockets)}


def processes_of(job: Run) -> tuple[Process, ...]:
    return tuple(map(process_of, job.records))


def judge_ending(job: Run, ranks: tuple[Process, ...], size: int, timeout: float) -> tuple[Check, Fault | None]:  # fmt: skip
    """What to say of ranks that did not all come to their end."""
    fault = find_exit_fault(ranks)
    ended = [p.record.rank for p in ranks]
    if fault is None and 0 < len(ranks) < size and not any(p.record.error for p in ranks):
        begun = max(p.begun for p in ranks)
        detail = f"rank {ended[0]} ends after {begun} steps, and others do not"
        fault = Fault("early exit on one rank", COUNT, detail, begun + 1)
    check = no_end(job, size, timeout)
    if fault is not None:
        check = Check(check.check, "fail", f"{fault}\n{check.detail}")
    elif job.code != TIMED_OUT:
        fault = Fault("the ranks fail", "ending", last_line(job.report) or "no message")
    return check, fault


@dataclass(frozen=True)
class Judgement:
    """What was found, by aspect.

    Attributes:
        paired: the comparison with the original, step by step. between: that of the ranks with one another.
        faults: of whole runs. said: what else was found.
        noise: why a difference from the original says nothing.
    """

    paired: Walk
    between: Walk
    faults: tuple[Fault, ...]
    said: Mapping[str, str]
    noise: str = ""

    @property
    def all_faults(self) -> list[Fault]:
        """Faults, those of whole runs first; of the two comparisons by step, the earlier one counts."""
        walks = [w.fault for w in (self.paired, self.between) if w.fault is not None]
        if self.noise:
            walks = walks[1:] if walks and walks[0] is self.paired.fault else walks
        return [*self.faults, *sorted(walks, key=lambda fault: fault.step)[:1]]

    @property
    def first(self) -> Fault | None:
        """The fault that shows first; one of data explains others."""
        order = lambda f: (f.aspect != DATA, f.step or float("inf"))  # noqa: E731
        return min(self.all_faults, key=order, default=None)

    @property
    def unjudged(self) -> str:
        """Why steps were not compared with those of the original."""
        return self.noise or self.paired.unjudged

    @property
    def compared(self) -> int:
        """How many steps were, and are equal."""
        return self.paired.counts[UPDATE]

    @property
    def needs_noise(self) -> bool:
        """Whether a fault may be one of rounding, or of an original that does not train twice alike."""
        fault = self.paired.fault
        return fault is not None and fault is self.first and fault.kind not in BETWEEN_RANKS

    def checks(self, size: int) -> Iterator[Check]:
        """A check for each aspect."""
        faults = {fault.aspect: fault for fault in reversed(self.all_faults)}
        for aspect in (BEFORE, DATA, RATE, LOSS, GRADIENTS, UPDATE, BROADCAST, COUNT, METRICS):
            name, said = named(size, aspect), self.said.get(aspect, "")
            paired, between = self.paired.counts[aspect], self.between.counts[aspect]
            if aspect in faults:
                yield Check(name, "fail", str(faults[aspect]))
            elif said:
                yield Check(name, "unknown" if said.startswith("not ") else "pass", said)
            elif paired:
                yield Check(name, "pass", f"as in one process in {number_of_steps(paired)}")
            elif between:
                text = f"right between ranks in {number_of_steps(between)}; not compared with one process"
                yield Check(name, "pass", text)
            else:
                text = f"not judged: {self.unjudged}" if self.unjudged else "not observed"
                yield Check(name, "unknown", text)


def number_of_steps(count: int) -> str:
    return number_of(count, "step", "steps")


def judge(
    own: Process,
    ranks: tuple[Process, ...],
    seeded: tuple[Process, ...],
    mode: Mode,
    tolerance: float,
    noise: tuple[Process, ...] = (),
) -> Judgement:
    """Judge runs of both programs.

    Args:
        own: of the original. ranks: with equal seeds. seeded: with a seed each; empty where that run failed.
        noise: the original again, and where it rounds otherwise.
    """
    faults: list[Fault | None] = [find_exit_fault(ranks)]
    said: dict[str, str] = {}
    paired = Walk(Counter(), unjudged="each rank takes a whole batch, and one process one of them")
    if mode == "exact":
        paired = compare_with_original(own, ranks, tolerance)
    reason = ""
    if noise and paired.fault is not None:
        ignored = variables_of_rounding(own, noise[-1])
        paired = compare_with_original(own, ranks, tolerance, ignored)
        again = (compare_with_original(own, [p], tolerance, ignored) for p in noise)
        reason = explain_by_noise(paired.fault, *again) if paired.fault is not None else ""
    if have_same_data(ranks) and (not seeded or have_same_data(seeded)):
        line = ranks[0].steps[0].gradient_line
        detail = f"all {len(ranks)} ranks take equal examples at each step"
        faults.append(Fault("the same data on all ranks", DATA, detail, 1, line))
    elif paired.unjudged or not paired.counts[DATA]:
        fault, said[DATA] = find_data_fault(own, ranks)
        faults.append(fault)
    between = compare_ranks(own, ranks, tolerance)
    own_seeds = compare_ranks(own, seeded, tolerance) if seeded else Walk(Counter())
    if own_seeds.fault is not None and between.fault is None:
        faults.append(replace(own_seeds.fault, aspect=BROADCAST))
    elif own_seeds.fault is None and own_seeds.counts[UPDATE]:
        equal_start = own_seeds.counts[BEFORE] == len(seeded[0].steps)
        after = "from the first step on" if equal_start else "after the first step"
        said[BROADCAST] = f"ranks with other random numbers have equal weights {after}"
    if mode == "scaled":
        fault, said[RATE] = find_scaling_fault(own, ranks)
        faults.append(fault)
        said[COUNT] = f"{ranks[0].record.steps} on each rank; {own.record.steps} in one process"
    else:
        faults.append(find_count_fault(own, ranks))
        said[COUNT] = f"{own.record.steps} steps"
        if paired.fault is None and not paired.unjudged:
            fault, said[METRICS] = find_metric_fault(own, ranks, tolerance)
            faults.append(fault)
    return Judgement(paired, between, tuple(f for f in faults if f is not None), said, reason)


def run_again(alone: Runner, steps: int | None, most: int) -> tuple[Process, ...]:
    """Two more runs of the original: one just the same, and one that rounds otherwise; none where they fail."""
    found = []
    for name, rounding in (("one process again", 0), ("one process, rounded otherwise", 1)):
        record = alone.alone(name, limits(steps, rounding=rounding, details=True), most).first
        alone.forget(name)
        if record is None:
            return ()
        found.append(process_of(record))
    return tuple(found)


def explain_by_noise(fault: Fault, again: Walk, rounded: Walk) -> str:
    """Why a difference from the original says nothing about the ranks; "" where it does.

    Args:
        again, rounded: comparisons of the original with itself, and with itself where it rounds otherwise.
    """
    said = "two runs of the original with equal seeds differ"
    for noise, slack in ((again, 1), (rounded, SLACK)):
        begins = noise.fault.step if noise.fault is not None else noise.counts[BEFORE] + 1
        if noise.fault is None and not noise.unjudged:
            begins = 0
        aspect = noise.fault.aspect if noise.fault is not None else BEFORE
        later = begins == fault.step and ORDER.index(aspect) > ORDER.index(fault.aspect)
        if begins and begins <= slack * fault.step and not later:
            return f"{said} from step {begins} on"
        said = "in one process, too, rounding makes such differences"
    return ""
