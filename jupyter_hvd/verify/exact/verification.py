"""Runs a program in one process and on N ranks, and reports where the results differ."""

from __future__ import annotations

import shutil
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from ...convert.documents import Document, write_document
from ...files import UnusableInputError, is_notebook
from ...launch.diagnosis import locate_by, report_stall
from ...launch.hosts import LaunchError, hosts_for
from ...launch.job import TIMED_OUT, Program, ended_with, run_job, run_single
from ...launch.progress import Stall
from ...launch.rank_placement import place_ranks
from ...launch.reaper import PrivateFolder, private_folder
from ...ranks.forks import separate_forkservers
from ...runtime.scaling import VIRTUAL_SIZE_VARIABLE
from ...source.lines import origin_finder
from .. import checks
from ..checks import Check
from ..workspace import check_room, list_changed_files, prepare_working_folders, read_folder_state
from .compare import (
    ASPECTS,
    BY_ENTRY,
    BY_STEP,
    ENDING,
    FILES,
    LOSSES,
    PRINTED,
    STEPS,
    TOLERANCE,
    UPDATES,
    WEIGHTS,
    Comparison,
    Difference,
    compare_records,
    first_difference,
)
from .rank import LAUNCHED_VARIABLE, last_line, limit_variables, record_stem, report_file
from .records import Record, read_record
from .scaling import SCALED_TO, check_scaling, without_details

SIZES = (2, 3)
SEED = 1
RANK_MODULE = "jupyter_hvd.verify.exact.rank"
PRELOADED = ("jupyter_hvd.verify.exact.observer",)
REFERENCE = "one process"
#: Ranks hold equal bits where nothing is wrong; sums in no fixed order, as on GPUs, are left this much.
RANKS_TOLERANCE = 1e-6
#: A verification that has seen none of these has seen nothing of the training's results.
RESULTS = (LOSSES, UPDATES, PRINTED, FILES, WEIGHTS)
#: The checks of how long a scaled program goes on.
LENGTHS = (": examples", ": epochs", ": evaluations")
#: A difference that rounding alone makes by this many times its step may be rounding.
SLACK = 2
#: One run that rounds otherwise is a sample of what rounding does: it may be this many times as much in another.
SAMPLE = 4
#: So many samples are taken where a difference is left, and so many where rounding changes something.
FEW_SAMPLES, SAMPLES = 2, 4


@dataclass(frozen=True)
class Run:
    """The outcome of a run, and the record of each process that left one.

    Attributes:
        report, rank: the traceback and number of the rank that failed first; "" and None where unknown.
    """

    code: int
    report: str
    records: tuple[Record, ...]
    stall: tuple[str, ...] = ()
    rank: int | None = None

    @property
    def first_record(self) -> Record | None:
        """The record of the single process, or of rank 0, with the error and exit code of the run."""
        if not self.records or self.records[0].rank:
            return None
        return replace(self.records[0], code=self.code, error=last_line(self.report))


@dataclass(frozen=True)
class Noise:
    """The variation of one process's results: between equal runs, and with other rounding.

    Attributes:
        again: the differences of a second, equal run, by aspect; None where it was not made, which is not needed as long as
            rounding changes nothing.
        rounded: the differences of runs with other rounding. samples: the number of these runs.
        of_ranks: the differences between each of them and the ranks, by aspect.
    """

    again: Mapping[str, Comparison] | None = None
    rounded: Mapping[str, Comparison] = field(default_factory=dict)
    samples: int = 0
    of_ranks: tuple[Mapping[str, Comparison], ...] = ()

    @property
    def first_run_difference(self) -> Difference | None:
        """The first difference between two equal runs in one process, except single entries of printed or written output."""
        return first_difference(c for a, c in (self.again or {}).items() if a not in BY_ENTRY)

    @property
    def has_rounding_differences(self) -> bool:
        """Whether any run with other rounding differs from the first run."""
        return any(c.differences for c in self.rounded.values())

    @property
    def needs_samples(self) -> bool:
        """Whether more runs would show the effect of rounding more reliably."""
        return self.samples < (SAMPLES if self.has_rounding_differences else FEW_SAMPLES)

    def with_sample(
        self, one: Record, rounded: Record | None, ranks: Record, tolerance: float
    ) -> Noise:
        """Return this noise with the differences of another run with other rounding; None for a run that left no record."""
        more = find_differences(one, rounded, tolerance / SAMPLE)
        before = self.rounded or find_differences(one, None, tolerance)
        both = {
            aspect: replace(known, differences=known.differences + more[aspect].differences)
            for aspect, known in before.items()
        }
        of_ranks = (find_differences(rounded, ranks, tolerance),) if rounded is not None else ()
        return replace(
            self, rounded=both, samples=self.samples + 1, of_ranks=self.of_ranks + of_ranks
        )

    def forget_ranks(self) -> Noise:
        """Return this noise for the comparison with another number of ranks: what is known about one process stays."""
        return replace(self, samples=0, of_ranks=())

    def explains_difference(self, aspect: str, difference: Difference) -> bool:
        """Whether equal runs or other rounding in one process make such a difference, or a rounded run equals the ranks in it."""
        again, rounded = (
            found[aspect].differences if found else () for found in (self.again, self.rounded)
        )
        return (
            any(d.key == difference.key for d in again)
            or any(d.key == difference.key and d.step <= SLACK * difference.step for d in rounded)
            or any(is_rounding_of_kind(difference, d) for d in rounded)
            or any(do_records_agree(compared, aspect, difference.key) for compared in self.of_ranks)
        )


def is_rounding_of_kind(difference: Difference, rounded: Difference) -> bool:
    """Whether rounding changes a number printed in the same words, such as in another epoch, by at least as much."""
    same = bool(rounded.kind) and rounded.kind == difference.kind
    return same and difference.size <= SAMPLE * rounded.size


def do_records_agree(compared: Mapping[str, Comparison], aspect: str, key: str) -> bool:
    """Whether two records were compared completely and agree in this key, or in the file that it belongs to."""
    found = compared[aspect].differences
    whole = not (compared[ENDING].differences or compared[STEPS].differences)
    differs = any(d.ends or d.key == key or key.startswith(f"{d.key} ") for d in found)
    return whole and not differs


def find_differences(one: Record, two: Record | None, tolerance: float) -> Mapping[str, Comparison]:
    """Return the differences by aspect; no differences where the second run left no record."""
    compared = compare_records(one, two, tolerance) if two is not None else ()
    nothing = {aspect: Comparison(aspect, "") for aspect in ASPECTS}
    return nothing | {comparison.aspect: comparison for comparison in compared}


@dataclass(frozen=True)
class ExactVerification:
    """The outcome of all checks.

    Attributes:
        steps: the number of training steps of one process. first: the first difference of the ranks.
        scaled: the program was scaled up, and its ranks are compared with one process that pretends to be as many ranks.
    """

    checks: tuple[Check, ...]
    sizes: tuple[int, ...]
    steps: int = 0
    first: Difference | None = None
    scaled: bool = False

    @property
    def fails(self) -> bool:
        """Whether any check failed."""
        return any(check.status == "fail" for check in self.checks)

    @property
    def holds(self) -> bool:
        """Whether no check failed, and for each number of ranks at least one result was observed to be equal."""
        seen = {check.check for check in self.checks if check.status == "pass"}
        return not self.fails and all(
            any(name_check(size, aspect) in seen for aspect in RESULTS) for size in self.sizes
        )

    @property
    def uncompared(self) -> str:
        """What of the scaled program could not be compared with the original, such as rates, as a sentence; "" for nothing."""
        unknown = (check for check in self.checks if check.status == "unknown")
        found = (check for check in unknown if check.check.startswith(SCALED_TO))
        said = "; ".join(f"{check.check}: {check.detail}" for check in found)
        return f" Not compared with the original: {said}." if said else ""

    @property
    def verdict(self) -> str:
        """The outcome in one sentence."""
        sizes = " and ".join(map(str, self.sizes))
        if self.scaled and self.holds:
            same = "the scaled program gives the results of one process that trains on batches as large"
            return f"On {sizes} ranks {same}, as far as they were observed.{self.uncompared}"
        if self.scaled and self.fails:
            wrong = next(check for check in self.checks if check.status == "fail")
            fault, *_ = wrong.detail.splitlines()  # where ranks wait, a table follows
            return f"The scaled program does not hold. First: {wrong.check}: {fault}."
        if self.holds:
            return f"On {sizes} ranks the program gives one process's results, as far as they were observed."
        if self.fails:
            first = f" First: {self.first}." if self.first is not None else ""
            return f"The ranks do not give one process's results.{first}"
        return "This training cannot be judged: no result of it was observed that one process gives twice."

    def as_json(self) -> dict[str, Any]:
        """Return the outcome as the JSON object that docs/json.md describes."""
        return {
            "batch": "per-rank" if self.scaled else "global",
            "verdict": self.verdict,
            "ranks": list(self.sizes),
            "steps": self.steps,
            "checks": [check.as_json() for check in self.checks],
            "first_difference": None if self.first is None else asdict(self.first),
            "holds": self.holds,
        }


def pretend_ranks(size: int) -> Mapping[str, str]:
    """Return the environment of one process that pretends to be `size` ranks."""
    return {VIRTUAL_SIZE_VARIABLE: str(size)}


def rounding_options(ranks: int, sample: int) -> dict[str, int]:
    """Return the options of `limit_variables` that give an observed process other rounding.

    Args:
        ranks: sample 0 sums gradients as this number of ranks does.
        sample: the number of earlier samples. Samples after the first change the last bits of gradients, each in another
            pattern.
    """
    return {"rounding": sample, "pieces": 1 if sample == 1 else ranks}


def name_check(size: int, what: str) -> str:
    """Return the name of a check on this number of ranks."""
    return f"{size} ranks: {what}" if size > 1 else f"1 rank: {what}"


def verify_exact(
    path: Path,
    document: Document,
    sizes: Sequence[int] = SIZES,
    *,
    variables: Mapping[str, str],
    steps: int | None = None,
    timeout: float = 300.0,
    tolerance: float = TOLERANCE,
    beside: Path | None = None,
    confirmed: bool = False,
    opened: Path | None = None,
    original: Document | None = None,
    listener: Callable[[Check], None] = lambda _: None,
) -> ExactVerification:
    """Check that a program computes on N ranks what it computes in one process, by running it.

    Where they differ, it runs in one process again, and several times with other rounding. Differences that these runs show
    too are not judged.

    Args:
        path: a notebook or script; it is only read. document: its contents.
        sizes: the numbers of ranks.
        variables: the environment of all processes, including the seed.
        steps: the number of training steps after which each run ends; None for the full program.
        timeout: seconds for each run. One process ends early enough, and cleanly, for the ranks to get as far.
        tolerance: see `compare.TOLERANCE`.
        beside: the folder whose files are copied for the runs; that of `path` if None.
        confirmed: the user has agreed to copy many files.
        opened: the user's file, where `path` is its conversion.
        original: the program before it was scaled up. The reference of N ranks is then one process that pretends to be N ranks,
            which is itself compared with the original.
        listener: called with each check when it begins and when it ends.

    Raises:
        UnusableInputError: there is no room for the copies.
        LaunchError: the job cannot be started.
        UnconfirmedError: there are many files to copy.
    """
    for size in sizes:
        hosts_for(size, None)
    if (steps is not None and steps < 1) or not timeout > 0:
        raise LaunchError(f"{steps} steps within {timeout:g} s: both must be more than 0")
    beside = (beside or path.parent).resolve()
    edited = {path.resolve(), (opened or path).resolve()}  # an editor may save these meanwhile
    found: list[Check] = []

    def report_check(check: Check) -> None:
        found.append(check)
        listener(check)

    with private_folder() as folder, separate_forkservers(PRELOADED) as forks:
        check_room(beside, folder.path, copies=3 + max(sizes), confirmed=confirmed)
        untouched = read_folder_state(beside, folder.path)
        environment = {**variables, **forks}
        runner = Runner(path, document, folder, beside, timeout, environment, listener)
        refused: list[str] = []
        seconds = timeout / max(sizes)
        first_runner = runner
        if original is not None:
            first_runner = replace(runner, document=original, path=opened or path)
        detailed = original is not None

        by_updates = False

        def limit_run(size: int, seconds: float = 0.0, **options: Any) -> Mapping[str, str]:
            """Return the environment that ends a run: a scaled step takes as many examples as N steps of one process."""
            most = max(1, steps // size) if steps is not None and detailed else steps
            return limit_variables(most, seconds, by_updates=by_updates, **options)

        def run_reference(own: Runner, name: str, size: int) -> Record | None:
            """Run one process, report the outcome, and return its record; None where it left none."""
            nonlocal steps
            limit = limit_run(size, seconds, details=detailed, numbers=detailed)
            run = own.run_in_one_process(name, {**limit, **pretend_ranks(size)})
            if run.first_record is None:
                report_check(Check(name, "unknown", explain_missing_reference(run, timeout)))
                return None
            refused.extend(run.first_record.refused)
            if run.first_record.stopped == "time":
                steps = run.first_record.steps * (size if detailed else 1)
            seen = run.first_record.steps > 0 and not run.first_record.error
            report_check(
                Check(
                    name,
                    "pass" if seen else "unknown",
                    describe_reference(run.first_record, seconds),
                )
            )
            return run.first_record

        one = run_reference(first_runner, REFERENCE, 1)
        if one is None:
            return ExactVerification(tuple(found), tuple(sizes), scaled=detailed)
        by_updates = any(site.kind == "update" for site in one.sites)
        noise = Noise()
        firsts: list[Difference] = []
        for size in sizes:
            compared = one
            if original is not None:
                scaled = run_reference(runner, f"one process as {size} ranks", size)
                if scaled is None:
                    continue
                for check in check_scaling(one, scaled, size):
                    report_check(
                        ignore_length_difference(check) if one.stopped or scaled.stopped else check
                    )
                compared, noise = without_details(scaled), Noise()
            job = runner.run_on_ranks(
                name_check(size, "training"),
                size,
                limit_run(size),
                compared.steps,
            )
            refused += [name for record in job.records for name in record.refused]
            two = job.first_record
            if two is None or job.code == TIMED_OUT:
                report_check(check_unfinished_ranks(job, size, timeout, compared.error))
                continue
            comparisons = compare_records(compared, two, tolerance)
            pretended = pretend_ranks(size) if detailed else {}
            noise = noise.forget_ranks()
            judged = [judge_comparison(comparison, noise, size) for comparison in comparisons]
            while noise.needs_samples and any(left for _, left in judged):
                limit = {**limit_run(size, **rounding_options(size, noise.samples)), **pretended}
                with runner.rerun_single_process(
                    "one process, rounded otherwise", limit, compared
                ) as record:
                    noise = noise.with_sample(compared, record, two, tolerance)
                if noise.again is None and noise.has_rounding_differences:
                    limit = {**limit_run(size), **pretended}
                    with runner.rerun_single_process("one process again", limit, compared) as again:
                        noise = replace(noise, again=find_differences(compared, again, tolerance))
                if noise.first_run_difference is not None:
                    break
                judged = [judge_comparison(comparison, noise, size) for comparison in comparisons]
            if noise.first_run_difference is not None:
                told = f"two runs in one process with equal seeds differ, so nothing can be judged: {noise.first_run_difference}"
                report_check(Check("reproducible", "unknown", told))
                break
            for check, _ in judged:
                report_check(check)
            first = first_difference(
                replace(c, differences=left)
                for c, (_, left) in zip(comparisons, judged, strict=True)
            )
            firsts += [first] if first is not None else []
            alone = noise.forget_ranks()
            report_check(check_ranks_equal(job, size, alone, is_notebook(path) or detailed))
            report_check(check_sharding(two, size))
            runner.forget_run(name_check(size, "training"))
        changes = [
            name
            for name in list_changed_files(untouched, read_folder_state(beside, folder.path))
            if beside / name not in edited
        ]
        report_check(checks.check_files_untouched(refused, changes))
    return ExactVerification(
        tuple(found), tuple(sizes), one.steps, firsts[0] if firsts else None, scaled=detailed
    )


# What is said


def explain_missing_reference(run: Run, timeout: float) -> str:
    """Return why the run of the original is no reference."""
    if run.code == TIMED_OUT:
        return f"the original makes no step that ends within {timeout:g} s: allow more by --timeout"
    return f"the original does not run: {last_line(run.report) or 'no message'}"


def ignore_length_difference(check: Check) -> Check:
    """Set a failed length check to "unknown": the programs were stopped early."""
    if check.status == "fail" and check.check.endswith(LENGTHS):
        return replace(check, status="unknown", detail="not judged: they did not run to their ends")
    return check


def describe_reference(one: Record, seconds: float) -> str:
    """Describe how one process came through the training: its steps, time, and error if any."""
    text = f"{one.steps} steps" if one.steps else "no training step was observed"
    if one.error:
        text += f", ends with {one.error[:200]}"
    elif one.stopped == "time":
        text += (
            f", stopped after {seconds:.0f} s so that the ranks can come as far within --timeout: "
            "what follows is not compared"
        )
    elif one.stopped == "steps":
        text += ", stopped there as --steps asks"
    else:
        text += ", to the end"
    return text


def check_unfinished_ranks(job: Run, size: int, timeout: float, expected: str = "") -> Check:
    """Return the check for ranks that did not complete, or of which rank 0 was ended because another failed.

    Args:
        expected: the error with which one process ends; "" for none.
    """
    name = name_check(size, ENDING)
    if job.code == TIMED_OUT and not job.stall:
        text = f"no end within {timeout:g} s, and nothing is compared: allow more by --timeout, or limit the steps by --steps"
        return Check(name, "unknown", text)
    if job.code == TIMED_OUT:
        text = f"no end within {timeout:g} s: ranks wait for one another"
        return Check(name, "fail", "\n".join([text, *job.stall]))
    error = last_line(job.report)
    if error and error == expected:
        return Check(name, "pass", f"both: {error}; nothing else of the ranks was observed")
    return Check(name, "fail", f"the ranks fail: {error or 'no message'}")


def judge_comparison(
    comparison: Comparison, noise: Noise, size: int
) -> tuple[Check, tuple[Difference, ...]]:
    """Return the check for a comparison with the ranks, and the differences that only the ranks show."""
    name = name_check(size, comparison.aspect)
    if not comparison.observed and not comparison.differences:
        return Check(name, "unknown", "not observed"), ()
    if not comparison.differences:
        return Check(name, "pass", comparison.observed), ()
    kept = (
        d for d in comparison.differences if not noise.explains_difference(comparison.aspect, d)
    )
    left = replace(comparison, differences=tuple(kept))
    if left.differences:
        more = f" (and {len(left.differences) - 1} more)" if len(left.differences) > 1 else ""
        return Check(name, "fail", f"{left.differences[0]}{more}"), left.differences
    varying = comparison.differences
    whole = not any(difference.ends for difference in varying)
    if comparison.aspect in BY_ENTRY and whole and len(varying) < comparison.count:
        also = f"{len(varying)} that vary in one process, too"
        return Check(name, "pass", f"{comparison.observed}, but for {also}"), ()
    if comparison.aspect == WEIGHTS and len(varying) < comparison.count:
        also = f"{len(varying)} within what rounding alone does to this program"
        return Check(name, "pass", f"{comparison.observed}, {also}: {varying[0]}"), ()
    begins = min(difference.step for difference in varying)
    if comparison.aspect in BY_STEP and begins > 1:
        also = "from there on rounding makes such differences in one process, too"
        return Check(name, "pass", f"{comparison.observed}, equal before step {begins}; {also}"), ()
    told = f"not judged: it varies in one process, too, or with rounding ({varying[0]})"
    return Check(name, "unknown", told), ()


def check_ranks_equal(job: Run, size: int, noise: Noise, quiet: bool) -> Check:
    """Check that all ranks compute what rank 0 computes.

    Args:
        quiet: ranks other than 0 print less, as in a converted program, or show no values, as in a notebook.
    """
    name = name_check(size, "ranks agree")
    if len(job.records) < 2:
        return Check(name, "unknown", "not observed")
    zero = job.records[0]
    for record in job.records[1:]:
        for comparison in compare_records(zero, record, RANKS_TOLERANCE):
            if quiet and comparison.aspect == PRINTED:
                continue
            check, left = judge_comparison(comparison, noise, size)
            if check.status == "fail":
                text = (
                    str(left[0])
                    .replace("in one process", "on rank 0")
                    .replace("one process", "rank 0")
                )
                return Check(
                    name,
                    "fail",
                    f"rank {record.rank} differs from rank 0 in {comparison.aspect}: {text}",
                )
    if len(job.records) < size:
        return Check(name, "unknown", f"only {len(job.records)} of {size} ranks left a record")
    return Check(name, "pass", "in all of this")


def check_sharding(two: Record, size: int) -> Check:
    """Check whether the ranks sharded the batches, and report the batch sizes."""
    name = name_check(size, "work shared")
    whole = "; ".join(line.removeprefix("jupyter_hvd: ") for line in two.told)
    if not two.shared:
        return Check(
            name,
            "unknown",
            f"nothing was sharded: every rank ran the full program{f': {whole}' * bool(whole)}",
        )
    uneven = [rows for rows in two.rows if rows % size]
    sizes = ", ".join(map(str, two.rows[:8])) + (", …" if len(two.rows) > 8 else "")
    divided = f"not divided by {size}: {', '.join(map(str, uneven[:4]))}"
    if not uneven:
        divided = f"rows that {size} does not divide: not observed"
    return Check(name, "pass", f"batches of {sizes} rows; {divided}{f'; {whole}' * bool(whole)}")


# The runs


@dataclass(frozen=True)
class Runner:
    """Runs a program; each process works in its own folder with copies of the user's files."""

    path: Path
    document: Document
    folder: PrivateFolder
    beside: Path
    timeout: float
    environment: Mapping[str, str]
    listener: Callable[[Check], None]

    def prepare_run(
        self, name: str, ranks: int, limit: Mapping[str, str]
    ) -> tuple[Path, Program, Mapping[str, str]]:
        """Make the folder of a run, and return it with the program to run and its environment.

        Raises:
            UnusableInputError: the user's files cannot be copied.
        """
        folder = self.folder.path / name.replace(" ", "-").replace(":", "")
        folder.mkdir()
        program = folder / f"{self.path.stem}{self.document.suffix}"
        write_document(program, self.document)
        try:
            ordered = prepare_working_folders(
                folder, self.beside, ranks=ranks, own=self.folder.path
            )
        except OSError as error:
            raise UnusableInputError(
                f"{self.beside}: cannot be copied ({error.strerror})"
            ) from None
        environment = {**self.environment, **ordered, **limit}
        return folder, Program(program, self.path.resolve(), module=RANK_MODULE), environment

    def forget_run(self, name: str) -> None:
        """Remove a run's folder and its copies."""
        shutil.rmtree(
            self.folder.path / name.replace(" ", "-").replace(":", ""), ignore_errors=True
        )

    def run_in_one_process(self, name: str, limit: Mapping[str, str], most: int = 0) -> Run:
        """Run the program in one process without a launcher.

        Args:
            most: the expected number of steps, for progress messages; 0 where unknown.
        """
        folder, program, environment = self.prepare_run(name, 1, limit)
        with self.report_steps(folder, name, most):
            result, printed = run_single(
                program, self.folder, timeout=self.timeout, environment=environment
            )
        return Run(result.code, result.report, read_rank_records(folder, {0: printed}, []))

    def run_with_launcher(
        self, name: str, launcher: Sequence[str], size: int, limit: Mapping[str, str], most: int
    ) -> Run:
        """Run at most `size` processes with the user's launcher command."""
        folder, program, environment = self.prepare_run(name, size, limit)
        with self.report_steps(folder, name, most), ended_with(self.folder.job):
            result, _ = run_single(
                program,
                self.folder,
                timeout=self.timeout,
                environment={**environment, LAUNCHED_VARIABLE: "1"},
                launcher=launcher,
                size=size,
            )
        return Run(result.code, result.report, read_rank_records(folder, {}, []))

    def run_on_ranks(self, name: str, size: int, limit: Mapping[str, str], most: int) -> Run:
        """Run the program on `size` local ranks. `most` is the expected number of steps."""
        folder, program, environment = self.prepare_run(name, size, limit)
        printed: dict[int, list[str]] = defaultdict(list)
        told: list[str] = []
        stalls: list[str] = []

        def hear_line(rank: int, stream: str, line: str) -> None:
            if stream == "stdout":
                printed[rank].append(line)
            elif rank == 0 and line.startswith("jupyter_hvd: "):
                told.append(line)

        def forget_lines(_: str) -> None:
            printed.clear()
            told.clear()

        def hear_stall(stall: Stall, hosts: Mapping[int, str]) -> None:
            finder = origin_finder(self.document.sources, self.document.sources)
            stalls[:] = report_stall(stall, locate_by(finder, self.path.name), hosts).lines

        with self.report_steps(folder, name, most):
            result = run_job(
                program,
                place_ranks(size),
                self.folder,
                timeout=self.timeout,
                listener=hear_line,
                stalled=hear_stall,
                again=forget_lines,
                environment=environment,
            )
        records = read_rank_records(folder, printed, told)
        return Run(result.code, result.report, records, tuple(stalls), result.rank)

    @contextmanager
    def rerun_single_process(
        self, name: str, limit: Mapping[str, str], one: Record
    ) -> Iterator[Record | None]:
        """Run the program once more in one process, and yield its record, or None if it left none.

        The run's folder is removed after the block.

        Args:
            one: an earlier record; its step count is the total in progress messages.
        """
        try:
            yield self.run_in_one_process(name, limit, one.steps).first_record
        finally:
            self.forget_run(name)

    @contextmanager
    def report_steps(self, folder: Path, name: str, most: int) -> Iterator[None]:
        """Report the number of steps while a run is in progress."""
        over = threading.Event()

        def follow_steps() -> None:
            before = ""
            while not over.wait(1.0):
                with suppress(OSError):
                    steps = report_file(folder).read_text()
                    if steps and steps != before:
                        before = steps
                        of = f" of {most}" if most else ""
                        self.listener(Check(name, "running", f"step {steps}{of}"))

        self.listener(Check(name, "running", "it starts"))
        thread = threading.Thread(target=follow_steps, name="hvd-steps", daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def read_rank_records(folder: Path, printed: Mapping[int, Sequence[str]], told: Sequence[str]) -> tuple[Record, ...]:  # fmt: skip
    """Read the records of a run's processes by rank, and add their output."""
    found = []
    for file in folder.glob("record-*.npz"):
        record = read_record(record_stem(folder, int(file.stem.removeprefix("record-"))))
        lines = tuple(printed.get(record.rank, ()))
        found.append(replace(record, printed=lines, told=tuple(told) if record.rank == 0 else ()))
    return tuple(sorted(found, key=lambda record: record.rank))
