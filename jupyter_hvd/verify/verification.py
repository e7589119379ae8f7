"""Runs the original once and the conversion on 1 and N ranks, and checks each against the others."""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..convert import Conversion, NotebookConversion, Options, convert_notebook, convert_source
from ..files import Script, read_notebook, read_script, write_notebook, write_script
from ..launchers.job import Program, run_job, run_single
from ..launchers.reaper import PrivateFolder, private_folder
from . import checks
from .checks import Check, Record, Run
from .probe import orders
from .steps import mark_steps

#: Names of the checks, in the order of the table.
CHECKS = (
    "one rank identical",
    "no rank stuck",
    "ranks agree",
    "broadcast once",
    "learning rate scaled",
    "work divided",
    "output from rank 0 only",
    "step time",
)
SEED = 1


@dataclass(frozen=True)
class Verification:
    """The outcome of all checks.

    Attributes:
        conversion: what was verified.
        runs: the runs that were compared: the original, the conversion on one rank, and on all.
    """

    conversion: Conversion | NotebookConversion
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


def verify(
    path: Path,
    size: int = 2,
    *,
    steps: int = 20,
    timeout: float = 300.0,
    options: Options | None = None,
    beside: Path | None = None,
    listener: Callable[[Check], None] | None = None,
) -> Verification:
    """Check a conversion by running it.

    The original runs once; the conversion on one rank with the same seed, and on `size`
    ranks with seeds of their own. Each run stops after `steps` training steps.

    Args:
        path: a notebook or script. It is only read; the programs run on copies, in folders of
            their own that show the files beside it.
        timeout: seconds for each run.
        beside: the folder whose files the programs see, that of `path` if None.
        listener: hears of each check as it begins and ends.

    Raises:
        UnusableInputError: the file is none that could be converted.
        LaunchError: the job cannot be started.
    """
    original, converted, conversion = _programs(
        path, options or Options.resolve(path=beside or path)
    )
    if conversion.status != "converted":
        return Verification(conversion, ())
    found: list[Check] = []

    def listen(check: Check) -> None:
        if listener is not None:
            listener(check)

    def tell(check: Check) -> None:
        found.append(check)
        listen(check)

    with private_folder() as folder:
        runner = Runner(path, folder, beside or path.parent, size, steps, timeout)
        listen(Check(CHECKS[0], "running", "the original, and the conversion on one rank"))
        with ThreadPoolExecutor(2) as pool:
            first = pool.submit(runner.alone, "original", original)
            second = pool.submit(runner.alone, "single", converted)
            before, single = first.result(), second.result()
        tell(checks.one_rank_identical(before, single))
        listen(Check(CHECKS[1], "running", f"the conversion, on {size} ranks with different seeds"))
        job = runner.on_ranks("ranks", converted)
        tell(checks.nobody_stuck(job, timeout))
        tell(checks.ranks_agree(job))
        tell(checks.broadcast_once(job))
        tell(checks.rate_scaled(before, job))
        tell(checks.work_divided(before, job))
        tell(checks.only_rank_zero_writes(job, (str(folder.path), tempfile.gettempdir())))
        tell(checks.step_time(single, job))
    return Verification(conversion, tuple(found), (before, single, job))


Writer = Callable[[Path], None]


def _programs(
    path: Path, options: Options
) -> tuple[Writer, Writer, Conversion | NotebookConversion]:
    """Writers of the original and the converted program, both with their steps marked."""
    if path.suffix == ".ipynb":
        notebook = read_notebook(path)
        conversion = convert_notebook(notebook, options=options)
        writers: list[Writer] = []
        for whole in (notebook, conversion.notebook):
            cells = [cell for cell in whole.cells if cell.cell_type == "code"]
            if conversion.status == "converted":
                for cell, marked in zip(
                    cells, mark_steps([cell.source for cell in cells]), strict=True
                ):
                    cell.source = marked
            writers.append(lambda output, whole=whole: write_notebook(output, whole))  # type: ignore[misc]
        return writers[0], writers[1], conversion
    script = read_script(path)
    converted = convert_source(script.source, options=options)
    texts = [
        Script(mark_steps([source])[0], script.encoding)
        if converted.status == "converted"
        else script
        for source in (script.source, converted.code)
    ]
    return (
        lambda output: write_script(output, texts[0]),
        lambda output: write_script(output, texts[1]),
        converted,
    )


@dataclass(frozen=True)
class Runner:
    """Runs programs under the probe, each rank in a folder of its own beside the user's files."""

    path: Path
    folder: PrivateFolder
    beside: Path
    size: int
    steps: int
    timeout: float

    def _prepare(self, name: str, write: Writer, ranks: int) -> tuple[Path, Path, dict[str, str]]:
        folder = self.folder.path / name
        folder.mkdir()
        program = folder / f"program{self.path.suffix}"
        write(program)
        environment = orders(
            folder, self.beside, seed=SEED, steps=self.steps, stride=self.size // ranks
        )
        return folder, program, environment

    def alone(self, name: str, write: Writer) -> Run:
        """One process without a launcher."""
        folder, program, environment = self._prepare(name, write, 1)
        result, printed = run_single(
            self._program(program), self.folder, timeout=self.timeout, environment=environment
        )
        return Run(result.code, result.report, _records(folder, {0: printed}))

    def _program(self, converted: Path) -> Program:
        return Program(converted, self.path.resolve(), module="jupyter_hvd.verify.rank")

    def on_ranks(self, name: str, write: Writer) -> Run:
        folder, program, environment = self._prepare(name, write, self.size)
        printed: dict[int, list[str]] = defaultdict(list)

        def hear(rank: int | None, stream: str, line: str) -> None:
            if rank is not None and stream == "stdout" and line.strip():
                printed[rank].append(line)

        result = run_job(
            self._program(program),
            self.size,
            self.folder,
            timeout=self.timeout,
            listener=hear,
            environment=environment,
        )
        return Run(result.code, result.report, _records(folder, printed))


def _records(folder: Path, printed: dict[int, list[str]]) -> tuple[Record, ...]:
    found = []
    for file in folder.glob("probe-*.json"):
        record = Record(**json.loads(file.read_text()))
        here = Path(record.here)
        files = sorted(
            str(path.relative_to(here))
            for path in (here.rglob("*") if here.is_relative_to(folder) else ())
            if path.is_file() and not path.is_symlink()
        )
        found.append(
            replace(record, printed=tuple(printed.get(record.rank, ())), files=tuple(files))
        )
    return tuple(sorted(found, key=lambda record: record.rank))
