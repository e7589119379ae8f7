"""Runs the original in one process and a distributed program on N ranks, and judges the distributed one."""

from __future__ import annotations

import re
import shutil
import socket
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ...convert.documents import Document
from ...launch.hosts import LaunchError, hosts_for
from ...launch.job import TIMED_OUT
from ...launch.reaper import private_folder
from ...ranks.forks import separate_forkservers
from .. import checks
from ..checks import Check
from ..exact.compare import TOLERANCE
from ..exact.rank import SEEDS_VARIABLE, WORKERS_VARIABLE, last_line, limit_variables
from ..exact.verification import (
    PRELOADED,
    REFERENCE,
    Run,
    Runner,
    check_unfinished_ranks,
    describe_reference,
    explain_missing_reference,
    name_check,
)
from ..workspace import check_room, list_changed_files, read_folder_state
from .faults import BROADCAST, COUNT, GRADIENTS, UPDATE, Fault, Mode, find_exit_fault, find_mode
from .judgement import (
    COMPARED,
    ONE_RANK,
    RANDOM_ORIGINAL,
    MoreRuns,
    find_step_fault,
    judge_with_more_runs,
)
from .programs import (
    NOT_DISTRIBUTED,
    is_distributed_by_tensorflow,
    names_processes,
    require_processes,
    require_python,
)
from .steps import Process, process_of

#: Steps of the run in which each rank has a seed of its own: a broadcast shows at the second.
STEPS_OF_OWN_SEEDS = 3
#: So many times the steps of the original the other program may make before it is ended.
MORE_STEPS = 2
#: Losses of the original and of the other program, by step.
Curves = tuple[tuple[float, ...], tuple[float, ...]]
#: The runs of an original that are made already, by its file and the name of the run.
KnownRuns = MutableMapping[tuple[Path, str, int | None], Run]
#: What must have been seen to be right before a program is called right.
REQUIRED = (GRADIENTS, UPDATE, BROADCAST)


@dataclass(frozen=True)
class AgainstVerification:
    """The outcome of all checks.

    Attributes:
        mode: "exact" if the ranks shard the original's batches, "scaled" if they take a batch each; None where unknown.
        fault: the first one; others may be its consequences. steps: how many steps one process made.
        compared: how many of them were compared with the distributed program's. unjudged: why the others were not.
        design: what differs from one process by design; "" for nothing. curves: the losses of both programs at each step.
    """

    checks: tuple[Check, ...]
    size: int
    mode: Mode | None = None
    steps: int = 0
    fault: Fault | None = None
    compared: int = 0
    unjudged: str = ""
    design: str = ""
    curves: Curves = ((), ())

    @property
    def fails(self) -> bool:
        """Whether any check failed."""
        return any(check.status == "fail" for check in self.checks)

    @property
    def holds(self) -> bool:
        """Whether no check failed, ranks were observed to average gradients and stay equal, and most steps were compared."""
        seen = {check.check for check in self.checks if check.status == "pass"}
        required = (*REQUIRED, *([COMPARED] if self.mode == "exact" else []))
        return not self.fails and all(name_check(self.size, aspect) in seen for aspect in required)

    @property
    def verdict(self) -> str:
        """The outcome in one or two sentences."""
        if self.fault is not None:
            return (
                f"The other program does not train as it should. It looks like this: {self.fault}."
            )
        if self.fails:
            return "The other program does not train as it should."
        if not self.holds:
            return f"This training cannot be judged: {self._why_inconclusive}."
        if self.design:
            return (
                f"On {self.size} ranks the other program is right by Horovod's documentation, and differs from one process "
                f"by design: {self.design}."
            )
        same = "the other program trains as the original does in one process"
        if self.compared and self.compared == self.steps:
            return f"On {self.size} ranks {same}, as far as it was observed."
        if self.compared:
            same += f" for {self.compared} of {self.steps} steps"
            return f"On {self.size} ranks {same}. Later ones were not compared: {self.unjudged}."
        between = (
            f"On {self.size} ranks no error was found: they begin with equal weights, average their gradients and stay "
            "equal."
        )
        if self.unjudged.startswith(RANDOM_ORIGINAL):
            return f"Whether it trains as the original does cannot be judged: {self.unjudged}. {between}"
        return f"{between} Losses and weights were not compared with the original: {self.unjudged}."

    @property
    def _why_inconclusive(self) -> str:
        """Why a training without a fault is not confirmed as right."""
        if self.mode != "exact" or not self.steps:
            return "too little of it could be compared"
        reason = f": {self.unjudged}" if self.unjudged else ""
        return f"{self.compared} of {self.steps} steps could be compared with the original{reason}"

    def as_json(self) -> dict[str, Any]:
        """Return the outcome as the JSON object that docs/json.md describes."""
        return {
            "mode": self.mode,
            "verdict": self.verdict,
            "ranks": self.size,
            "steps": self.steps,
            "compared": self.compared,
            "unjudged": self.unjudged,
            "design": self.design,
            "checks": [check.as_json() for check in self.checks],
            "fault": None if self.fault is None else asdict(self.fault),
            "holds": self.holds,
        }


@dataclass(frozen=True)
class Program:
    """A notebook or script and its contents."""

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
    known: KnownRuns | None = None,
    launcher: Sequence[str] | None = None,
) -> AgainstVerification:
    """Judge a program that distributes its training itself, by running it and the original.

    The distributed program runs twice: with equal seeds on all ranks, to be compared with one process, and for a few steps
    with
    different seeds, as in a real job.

    Args:
        original: for one process. other: for `size` ranks. Both are only read.
        variables: the environment of all processes, including the seed.
        mode: whether ranks shard the original's batches or take a batch each; inferred if None.
        steps: the number of training steps after which each run ends; None for the full program.
        timeout: seconds for each run.
        tolerance: the allowed difference of a loss or gradient, relative to the largest of its kind.
        beside: the folder whose files are copied for the runs; the original's folder if None.
        confirmed: the user has agreed to copy many files.
        listener: called with each check when it begins and when it ends.
        launcher: the user's command that starts the ranks of the distributed program; this package starts them if None.
        known: earlier runs of the original with the same variables; new runs are added.

    Raises:
        UnusableInputError: one of the programs cannot be judged, or there is no room for the copies.
        LaunchError: the job cannot be started.
        UnconfirmedError: there are many files to copy.
    """
    hosts_for(size, None)
    if size < 2 or (steps is not None and steps < 1) or not timeout > 0:
        raise LaunchError(f"{size} ranks, {steps} steps within {timeout:g} s: needs 2, 1 and more than 0")  # fmt: skip
    if launcher is not None and shutil.which(launcher[0]) is None:
        raise LaunchError(f"--launcher {launcher[0]}: there is no such command")
    for program in (original, other):
        require_python(program.path, program.document)
    require_processes(other.path, other.document)
    folders = ((beside or original.path.parent).resolve(), other.path.parent.resolve())
    found: list[Check] = []

    def report_check(check: Check) -> None:
        found.append(check)
        listener(check)

    with private_folder() as folder, separate_forkservers(PRELOADED) as forks:
        for source in dict.fromkeys(folders):
            check_room(source, folder.path, copies=3 + 2 * size, confirmed=confirmed)
        untouched = {source: read_folder_state(source, folder.path) for source in folders}
        environment = {**variables, **forks}
        alone, distributed = (
            Runner(p.path, p.document, folder, source, timeout, environment, listener)
            for p, source in zip((original, other), folders, strict=True)
        )
        refused: list[str] = []

        def make_conclusion(made: int = 0, **found_out: Any) -> AgainstVerification:
            changes = [
                name
                for source, before in untouched.items()
                for name in list_changed_files(before, read_folder_state(source, folder.path))
                if source / name not in (original.path.resolve(), other.path.resolve())
            ]
            report_check(checks.check_files_untouched(refused, changes))
            return AgainstVerification(tuple(found), size, steps=made, **found_out)

        seconds = timeout / size
        runs = OriginalRuns(alone, {} if known is None else known)
        reference = runs.make_run(REFERENCE, steps, seconds=seconds)
        one = reference.first_record
        if one is None or not one.steps or one.error:
            said = (
                explain_missing_reference(reference, timeout)
                if one is None
                else describe_reference(one, seconds)
            )
            report_check(Check(REFERENCE, "unknown", said))
            return make_conclusion()
        refused += one.refused
        report_check(Check(REFERENCE, "pass", describe_reference(one, seconds)))
        own = process_of(one)

        def run_other(name: str, ranks: int, limit: Mapping[str, str], most: int) -> Run:
            variables = {**limit, **cluster_variables(other.document, ranks)}
            if launcher is not None:
                return distributed.run_with_launcher(name, launcher, ranks, variables, most)
            return distributed.run_on_ranks(name, ranks, variables, most)

        # A program that trains for ever shows after some more steps that it makes too many.
        most = one.steps if one.stopped else MORE_STEPS * one.steps + 1
        same = {**limit_variables(most, details=True), SEEDS_VARIABLE: "same"}
        job = run_other(name_check(size, "training"), size, same, one.steps)
        ranks = processes_of(job)
        refused += [name for p in ranks for name in p.record.refused]
        if job.code or len(ranks) < size:
            check, fault = check_endings(job, ranks, size, timeout, other.path.name)
            earlier = find_step_fault(own, ranks, mode or find_mode(own, ranks)[0], tolerance)
            if earlier is not None and len(ranks) == size:
                check, fault = (
                    replace(check, status="fail", detail=f"{earlier}\n{check.detail}"),
                    earlier,
                )
            report_check(check)
            return make_conclusion(one.steps, mode=mode, fault=fault)
        unconnected = "" if names_processes(other.document) else f"; {NOT_DISTRIBUTED}"
        report_check(
            Check(
                name_check(size, "ending"), "pass", f"all ranks end without an error{unconnected}"
            )
        )
        if mode is None:
            mode, reason = find_mode(own, ranks)
            if mode is None:
                report_check(Check(name_check(size, "batches"), "unknown", f"not known: {reason}"))
                return make_conclusion(one.steps)
            report_check(Check(name_check(size, "batches"), "pass", f"{mode}: {reason}"))

        def run_one_rank() -> Process | None:
            """Run the distributed program on one rank. Return None with a launcher, or where the run leaves no record."""
            if launcher is not None:
                return None
            return next(iter(processes_of(run_other(ONE_RANK, 1, same, one.steps))), None)

        def own_seeds() -> tuple[Process, ...]:
            each = {**limit_variables(STEPS_OF_OWN_SEEDS, details=True), SEEDS_VARIABLE: "each"}
            run = run_other(name_check(size, "own seeds"), size, each, STEPS_OF_OWN_SEEDS)
            return () if run.code else processes_of(run)

        def repeat_original() -> tuple[Process, ...]:
            return runs.repeat_run(one.steps if one.stopped else None, one.steps)

        more = MoreRuns(repeat_original, run_one_rank, own_seeds)
        judgement = judge_with_more_runs(more, own, ranks, mode, tolerance)
        for check in judgement.list_checks(size):
            report_check(check)
        return make_conclusion(
            one.steps,
            mode=mode,
            fault=judgement.first_fault,
            compared=judgement.compared_steps,
            unjudged=judgement.why_unjudged,
            design=judgement.design_difference,
            curves=loss_curves(own, ranks),
        )


@dataclass(frozen=True)
class OriginalRuns:
    """Runs of the original in one process, each made at most once."""

    runner: Runner
    known: KnownRuns

    def make_run(
        self,
        name: str,
        steps: int | None,
        *,
        seconds: float = 0.0,
        rounding: int = 0,
        most: int = 0,
    ) -> Run:
        """Run the original until `steps` or `seconds` are reached.

        For the other arguments see `limit_variables` and `Runner.run_in_one_process`.
        """
        key = (self.runner.path.resolve(), name, steps)
        if key not in self.known:
            limit = limit_variables(steps, seconds, rounding, details=True)
            self.known[key] = self.runner.run_in_one_process(name, limit, most)
            self.runner.forget_run(name)
        return self.known[key]

    def repeat_run(self, steps: int | None, most: int) -> tuple[Process, ...]:
        """Run the original twice more, the second time with other rounding; return () where that fails."""
        names = (("one process again", 0), ("one process, rounded otherwise", 1))
        runs = [
            self.make_run(name, steps, rounding=rounding, most=most) for name, rounding in names
        ]
        records = [run.first_record for run in runs]
        return tuple(process_of(r) for r in records if r is not None) if all(records) else ()


def cluster_variables(document: Document, size: int) -> Mapping[str, str]:
    """Return the environment variable that lists the ranks' addresses, if the program uses `tf.distribute`."""
    if not is_distributed_by_tensorflow(document):
        return {}
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in range(size)]
        return {WORKERS_VARIABLE: ",".join(f"127.0.0.1:{s.getsockname()[1]}" for s in sockets)}


def processes_of(job: Run) -> tuple[Process, ...]:
    """Split the record of each process of a run into steps."""
    return tuple(map(process_of, job.records))


def check_endings(
    job: Run, ranks: tuple[Process, ...], size: int, timeout: float, program: str
) -> tuple[Check, Fault | None]:
    """Return the check for ranks of which some did not complete the program.

    Args:
        program: the name of its file.
    """
    fault = find_exit_fault(ranks)
    ended = [p.record.rank for p in ranks]
    by_themselves = not any(p.record.error or p.record.stopped for p in ranks)
    if fault is None and 0 < len(ranks) < size and by_themselves:
        begun = max(p.begun for p in ranks)
        detail = f"rank {ended[0]} ends after {begun} steps, and others do not"
        fault = Fault("early exit on one rank", COUNT, detail, begun + 1)
    check = check_unfinished_ranks(job, size, timeout)
    if fault is not None:
        check = Check(check.check, "fail", f"{fault}\n{check.detail}")
    elif job.code != TIMED_OUT:
        who = "" if job.rank is None else f"rank {job.rank}: "
        error = last_line(job.report) or "no message"
        fault = Fault(
            "the ranks fail", "ending", who + error, 0, find_traceback_line(job.report, program)
        )
        check = replace(check, detail=str(fault))
    return check, fault


def find_traceback_line(traceback: str, program: str) -> str:
    """Return the last line of a script that a traceback names; "" for none.

    Args:
        program: the name of its file.
    """
    found = re.findall(rf'File "(?:[^"]*/)?{re.escape(program)}", line (\d+)', traceback)
    return f"{program}, line {found[-1]}" if found else ""


def loss_curves(original: Process, ranks: tuple[Process, ...]) -> Curves:
    """Return the loss of each step of the original, and the mean of the ranks' losses; nan where there was none."""
    steps = zip(*(p.steps for p in ranks), strict=False)
    theirs = tuple(sum(s.loss for s in step) / len(ranks) for step in steps)
    return tuple(s.loss for s in original.steps), theirs
