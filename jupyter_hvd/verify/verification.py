"""Runs the original once and the conversion on 1 and N ranks, and checks each against the others."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..conversion_limit import CONVERSION_SECONDS, conversion_limit
from ..convert import Options, Outcome, ways_divided
from ..documents import Document, load, write
from ..files import UnusableInputError
from ..launchers.base import rank_environment
from ..launchers.diagnosis import Locate, locate_by, report
from ..launchers.hosts import LaunchError, hosts_for
from ..launchers.job import Program, run_job, run_single
from ..launchers.places import place
from ..launchers.processes import end_processes
from ..launchers.progress import Stall
from ..launchers.reaper import PrivateFolder, private_folder
from ..rank.forks import FORKS_VARIABLE, WITHOUT_HOROVOD, forkservers
from ..rules.tensorflow_horovod.apart import Alone
from ..source.cells import JoinedCells
from ..source.lines import origin_finder
from . import checks
from .checks import Check, Record, Run
from .losing import Loss, run_and_lose
from .partings import Parting, Weights, parting
from .probe import orders, trail_file, working_folder
from .steps import ALWAYS, Places, mark_steps, step_places
from .workspace import State, changed, measure, state_beside, state_within

#: The folders of the runs: the original, the conversion on one rank, and on all.
RUNS = ("original", "single", "ranks")
LOSING = "losing"
#: Training steps of each run.
STEPS = 20
SEED = 1
#: What every run imports besides.
PRELOADED = ("jupyter_hvd.verify.probe",)
#: Rules whose changes let a program round otherwise.
ROUNDING = ("HVD306",)


class UnconfirmedError(Exception):
    """There is much to copy; the message says how much, for the user to say whether it is meant."""


@dataclass(frozen=True)
class Verification:
    """The outcome of all checks.

    Attributes:
        conversion: what was verified.
        runs: the runs that were compared: the original, the conversion on one rank, and on all.
    """

    conversion: Outcome
    checks: tuple[Check, ...]
    runs: tuple[Run, ...] = ()

    @property
    def holds(self) -> bool:
        """Whether the file was converted and no check fails."""
        return self.conversion.status == "converted" and all(
            c.status != "fail" for c in self.checks
        )

    def as_json(self) -> dict[str, Any]:
        return {
            **self.conversion.as_json(),
            "checks": [check.as_json() for check in self.checks],
            "holds": self.holds,
        }


@dataclass(frozen=True)
class Part:
    """A conversion of which the user has left changes out.

    Attributes:
        left: the places, among all changes, of those that are left out.
        converted: what the others make of the program.
    """

    left: frozenset[int]
    converted: Document


def verify(
    path: Path,
    size: int = 2,
    *,
    steps: int = STEPS,
    timeout: float = 300.0,
    options: Options | None = None,
    beside: Path | None = None,
    document: Document | None = None,
    part: Part | None = None,
    confirmed: bool = False,
    listener: Callable[[Check], None] | None = None,
    conversion_seconds: float = CONVERSION_SECONDS,
) -> Verification:
    """Check a conversion by running it.

    The original runs once; the conversion on one rank with the same seed, and on `size`
    ranks with seeds of their own. Each run stops after `steps` training steps.

    Args:
        path: a notebook or script. It is only read; the programs run on copies, in folders of
            their own with copies of the files beside it.
        timeout: seconds for each run.
        beside: the folder whose files the programs have copies of, that of `path` if None.
        document: what is verified, where that is not read from `path`; there may be no such file.
        part: what is verified where some changes are left out.
        confirmed: the user knows that there is much to copy.
        listener: hears of each check as it begins and ends.
        conversion_seconds: how long the conversion may take, in the main thread; 0 for any time.

    Raises:
        UnusableInputError: the file is none that could be converted, or its conversion takes longer, or there is no room for
            the copies, or the options choose batch global.
        LaunchError: the job cannot be started.
        UnconfirmedError: there is much to copy.
    """
    hosts_for(size, None)
    if steps < 1 or not timeout > 0:
        raise LaunchError(
            f"{steps} steps within {timeout:g} s: there must be more than none of both"
        )
    original = document or load(path)
    options = options or Options.resolve(path=beside or path)
    if options.shares_batches:
        raise UnusableInputError(
            f"{path}: these checks are for batch per-rank, and batch {options.batch} is chosen: "
            f"jupyter hvd verify --batch {options.batch} compares with one process"
        )
    with conversion_limit(path, conversion_seconds):
        conversion, converted = original.convert(options)
    if conversion.status != "converted":
        return Verification(conversion, ())
    if part is not None:
        made = (c for place, c in enumerate(conversion.changes) if place not in part.left)
        conversion, converted = replace(conversion, changes=tuple(made)), part.converted
    found: list[Check] = []

    def listen(check: Check) -> None:
        if listener is not None:
            listener(check)

    def tell(check: Check) -> None:
        found.append(check)
        listen(check)

    with (
        private_folder() as folder,
        forkservers(folder.path, folder.job, PRELOADED, without_horovod=True) as forks,
    ):
        beside = (beside or path.parent).resolve()
        check_room(
            beside, folder.path, copies=size * (1 + options.elastic) + 2, confirmed=confirmed
        )
        untouched = state_beside(beside, folder.path)
        runner = Runner(path, original, folder, beside, size, steps, timeout, forks)
        listen(Check(checks.IDENTICAL, "running", "the original, and the conversion on one rank"))
        alone = [
            runner.prepare(RUNS[0], with_marked_steps(compared(original, conversion)), 1),
            runner.prepare(RUNS[1], with_marked_steps(converted), 1),
        ]
        with ThreadPoolExecutor(2) as pool, ended_early(folder.job):
            before, single = pool.map(runner.alone, alone)
        places = places_of(original)
        tell(checks.one_rank_identical(before, single, converted_parts(before, single, places)))
        listen(
            Check(
                checks.NOT_STUCK, "running", f"the conversion, on {size} ranks with different seeds"
            )
        )
        job = runner.on_ranks(runner.prepare(RUNS[2], with_marked_steps(converted), size))
        tell(checks.nobody_stuck(job, timeout))
        tell(checks.ranks_agree(job, ranks_part(job, places)))
        tell(checks.broadcast_once(job))
        tell(checks.rate_scaled(before, job, kept_rates(conversion)))
        tell(checks.work_divided(before, job, ways_divided(conversion.changes)))
        tell(checks.only_rank_zero_writes(job, (str(folder.path), tempfile.gettempdir())))
        models = saved_models(job)
        tell(checks.saved_models_load(runner.load(models), len(models)))
        lost = None
        if options.elastic:
            listen(Check(checks.GOES_ON, "running", f"{size} ranks, one of which is killed"))
            lost = runner.losing(with_marked_steps(converted))
        changes = [
            name
            for name in changed(untouched, state_beside(beside, folder.path))
            if beside / name != path.resolve()  # which an editor may save meanwhile
        ]
        records = [record for run in (before, single, job) for record in run.records]
        refused = [name for record in records for name in record.refused]
        tell(checks.files_untouched(refused, changes))
        if lost is not None:
            tell(checks.goes_on(*lost))
        tell(checks.step_time(single, job))
    return Verification(conversion, tuple(found), (before, single, job))


@contextmanager
def ended_early(job: str) -> Iterator[None]:
    """End a job's processes at once where the block is left by an exception, so that no thread waits for them."""
    try:
        yield
    except BaseException:
        end_processes(job, grace=1.0)
        raise


def check_room(beside: Path, own: Path, *, copies: int, confirmed: bool) -> None:
    """See to it that the files beside the program can be copied.

    Raises:
        UnconfirmedError: there is much to copy, and the user has not been asked.
        UnusableInputError: there is no room.
    """
    size = measure(beside, own, whole=confirmed)
    free = shutil.disk_usage(own).free
    if size.bytes * copies > free:
        raise UnusableInputError(
            f"{copies} copies of {beside} do not fit into {own.parent}, where {free / 1e9:.1f} GB are free;"
            " set TMPDIR, or put the program into a folder with what it needs"
        )
    if size.is_large and not confirmed:
        raise UnconfirmedError(
            f"{beside} holds more than {size.bytes / 1e9:.1f} GB in {size.files} files, and each of"
            f" {copies} processes works on a copy, in {own.parent}"
        )


def with_marked_steps(document: Document) -> Document:
    return document.with_sources(mark_steps(list(document.sources.values())))


def compared(original: Document, conversion: Outcome) -> Document:
    """The original, rounding as the conversion does, and what rank 0 alone is to do marked likewise."""
    alone = [
        replace(edit, text=re.sub(r"^if .*:", f"if {ALWAYS}:", edit.text))
        for change in conversion.changes
        if change.rule == Alone.code and Alone.rationale == change.why
        for edit in change.edits
    ]
    if alone:
        labels = [cell for cell in original.sources if cell is not None]
        texts = list(original.sources.values())
        cells = JoinedCells.of(texts, labels) if labels else JoinedCells(tuple(texts))
        return original.with_sources(cells.apply(alone))
    if any(change.rule in ROUNDING for change in conversion.changes):
        return original.convert(Options(select=ROUNDING))[1]
    return original


def kept_rates(conversion: Outcome) -> int:
    """How many optimizers may keep the rate of one process: those of steps on all the data; all, where no rate is multiplied."""
    whole = sum(d.code == "HVD504" for d in conversion.diagnostics)
    rows = sum(change.rule == "HVD510" for change in conversion.changes)
    scaled = any(change.rule == "HVD201" for change in conversion.changes)
    return whole + rows if scaled or not (whole or rows) else sys.maxsize


def converted_parts(original: Run, single: Run, places: Places) -> Parting | None:
    """Where a conversion on one rank and the original first differ."""
    if not original.holds or not single.holds:
        return None
    one, two = original.records[0], single.records[0]
    return parting(one, two, places, (kept_by(one), kept_by(two)), "processes", 1)


def ranks_part(job: Run, places: Places) -> dict[int, Parting]:
    """By rank, where its weights first differ from rank 0's."""
    found = {}
    for record in job.records[1:]:
        zero = job.records[0]
        kept = (kept_by(zero), kept_by(record))
        first = parting(zero, record, places, kept, ranks=len(job.records))
        if first is not None:
            found[record.rank] = first
    return found


def kept_by(record: Record) -> Weights:
    """The weights that a rank had after its first steps."""
    file = Path(record.kept)

    def weights(step: int, place: int) -> NDArray[Any] | None:
        with np.load(file) as arrays:
            found: NDArray[Any] | None = arrays.get(f"{step}.{place}")
            return found

    return weights


def places_of(document: Document) -> Places:
    """The statements of a program that run training steps, to be read by the user."""
    labels = [cell for cell in document.sources if cell is not None]
    return step_places(list(document.sources.values()), labels or None)


@dataclass(frozen=True)
class Prepared:
    """A program in its folder, with a working folder for each rank.

    Attributes:
        states: the state of each rank's working folder. locate: the user's line for one of the program's.
    """

    folder: Path
    program: Program
    environment: Mapping[str, str]
    states: Sequence[State]
    locate: Locate


@dataclass(frozen=True)
class Runner:
    """Runs programs under the probe, each rank in a folder of its own with copies of the user's files."""

    path: Path
    original: Document
    folder: PrivateFolder
    beside: Path
    size: int
    steps: int
    timeout: float
    forks: Mapping[str, str]

    def prepare(self, name: str, document: Document, ranks: int) -> Prepared:
        """
        Raises:
            UnusableInputError: the user's files cannot be copied.
        """
        folder = self.folder.path / name
        folder.mkdir()
        program = folder / f"program{document.suffix}"
        write(program, document)
        try:
            environment = orders(
                folder,
                self.beside,
                ranks=ranks,
                seed=SEED,
                steps=self.steps,
                stride=self.size // ranks,
                own=self.folder.path,
            )
        except OSError as error:
            raise UnusableInputError(
                f"{self.beside}: cannot be copied ({error.strerror})"
            ) from None
        return Prepared(
            folder,
            Program(program, self.path.resolve(), module="jupyter_hvd.verify.rank"),
            {**environment, **self.forks},
            [state_within(working_folder(folder, rank)) for rank in range(ranks)],
            locate_by(origin_finder(self.original.sources, document.sources), self.path.name),
        )

    def alone(self, run: Prepared) -> Run:
        """One process without a launcher."""
        result, printed = run_single(
            run.program, self.folder, timeout=self.timeout, environment=run.environment
        )
        return Run(result.code, result.report, _records(run, {0: printed}))

    def load(self, models: Sequence[str]) -> list[tuple[str, str | None]]:
        """Each model that tells something of the conversion, and what is wrong with it; see `loading.py`."""
        if not models:
            return []
        places = [working_folder(self.folder.path / name, 0) for name in RUNS]
        with suppress(subprocess.TimeoutExpired):
            done = subprocess.run(  # noqa: S603 — a list of arguments, no shell
                [
                    *(sys.executable, "-P", "-m", "jupyter_hvd.rank.forks", WITHOUT_HOROVOD),
                    *("jupyter_hvd.verify.loading", *map(str, places), *models),
                ],
                env=rank_environment(self.folder.job, self.forks),
                cwd=self.folder.path,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=self.timeout,
                check=False,
            )
            if done.returncode == 0:
                return [(name, fault) for name, fault in json.loads(done.stdout.splitlines()[-1])]
        return []

    def on_ranks(self, run: Prepared) -> Run:
        printed: dict[int, list[str]] = defaultdict(list)

        last_words: dict[int, str] = {}

        def hear(rank: int, stream: str, line: str) -> None:
            if stream == "stdout" and line.strip():
                printed[rank].append(line)
            elif line.strip():
                last_words[rank] = line.strip()

        stalls: list[str] = []

        def stalled(stall: Stall, hosts: Mapping[int, str]) -> None:
            stalls[:] = report(stall, run.locate, hosts)

        result = run_job(
            run.program,
            place(self.size),
            self.folder,
            timeout=self.timeout,
            listener=hear,
            stalled=stalled,
            environment=run.environment,
        )
        told = result.report
        # A rank that ended below Python could not say why.
        if result.rank in last_words and result.code > 128:
            told += f"; its last words: {last_words[result.rank][:300]}"
        return Run(result.code, told, _records(run, printed), tuple(stalls))

    def losing(self, document: Document) -> tuple[Loss, Run]:
        """The whole program as an elastic job, one of whose ranks is killed, and the ranks that came to the end."""
        whole = replace(self, steps=sys.maxsize, forks={FORKS_VARIABLE: ""})
        run = whole.prepare(LOSING, document, self.size)
        loss = run_and_lose(
            run.program, self.folder, self.size, run.environment, self.timeout, SEED
        )
        records = _records(run, {})[: loss.left]
        return loss, Run(loss.result.code, loss.result.report, records)


def saved_models(run: Run) -> tuple[str, ...]:
    """Files and folders, in rank 0's working folder, that may be whole models."""
    return tuple(
        name.removesuffix("/saved_model.pb")
        for name in (run.records[0].files if run.records else ())
        if name.endswith((".keras", ".h5", ".hdf5", "/saved_model.pb"))
        and not name.endswith(".weights.h5")
    )


def _records(run: Prepared, printed: Mapping[int, Sequence[str]]) -> tuple[Record, ...]:
    """What the ranks' probes wrote down, with what each rank printed and which files it changed."""
    found = []
    for file in run.folder.glob("probe-*.json"):
        noted = json.loads(file.read_text())
        record = Record(**noted, kept=str(run.folder / trail_file(noted["rank"])))
        here = working_folder(run.folder, record.rank)
        after = state_within(here)
        files = [
            name
            for name in changed(run.states[record.rank], after)
            # A link leads to what rank 0 has written: see `Probe._linking`.
            if "__pycache__" not in name and not (here / name).is_symlink()
        ]
        lines = tuple(printed.get(record.rank, ()))
        found.append(replace(record, printed=lines, files=tuple(files)))
    return tuple(sorted(found, key=lambda record: record.rank))
