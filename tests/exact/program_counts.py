"""Every program of the suites, unchanged, under `jupyter hvd verify --batch global`: how many give one process's numbers.

`python -m tests.exact.program_counts [--sizes 2,3] [--steps N] [--every N] [--into FILE] [NAME …]` prints a line for each
program, and then the counts. It takes the programs of `tests/programs` and of `tests/exact/programs`, with `--every 3` each
third of them; NAMEs are names or parts of them. Other stacks run it with their own Python:
`TF_USE_LEGACY_KERAS=1 .venv-tf218/bin/python -m …` is tf_keras.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from jupyter_hvd.convert import Options
from jupyter_hvd.convert.documents import load_document
from jupyter_hvd.convert.unconverted_programs import common_variables, require_single_process
from jupyter_hvd.files import UnusableInputError
from jupyter_hvd.ranks.forks import separate_forkservers
from jupyter_hvd.verify.checks import Check
from jupyter_hvd.verify.exact.verification import (
    PRELOADED,
    SEED,
    SIZES,
    ExactVerification,
    verify_exact,
)

from .. import data
from ..stacks import present_keras
from ..suite import RUN

EXACT = Path(__file__).parent / "programs"
#: What can become of a program, the best first. *whole*: equal, and nothing of it was shared.
OUTCOMES = ("equal", "whole", "refused", "not reproducible", "fails alone", "not observed", "wrong")
#: In the errors of ranks that stopped because they would not have given one process's numbers.
REFUSALS = (
    "ranks computed on different data", "does not; do not share this program", "would need Horovod to be loaded",
)  # fmt: skip

#: One thread for each operation: ranks that share few cores would hinder one another.
THREADS = {
    "OMP_NUM_THREADS": "1",
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "2",
}


@dataclass(frozen=True)
class Outcome:
    """What became of a program on some numbers of ranks.

    Attributes:
        outcome: one of `OUTCOMES`. why: what does not hold, or what runs unsharded. seconds: of wall time.
    """

    program: str
    outcome: str
    why: str
    seconds: float


def programs(names: Sequence[str] = ()) -> list[Path]:
    """The programs that this Keras can run, those whose name has one of `names` in it where some are given."""
    converted = [p.path for p in RUN if not p.cannot_run(present_keras())]
    every = sorted([*converted, *EXACT.glob("*.py")], key=lambda path: path.stem)
    return [path for path in every if not names or any(name in path.stem for name in names)]


def classify(verification: ExactVerification) -> tuple[str, str]:
    """One of `OUTCOMES`, and why."""
    by_status: dict[str, list[Check]] = {"pass": [], "fail": [], "unknown": []}
    for check in verification.checks:
        by_status[check.status].append(check)
    failed = "; ".join(f"{c.check}: {c.detail}" for c in by_status["fail"])
    if failed:
        return ("refused" if any(r in failed for r in REFUSALS) else "wrong"), failed
    unknown = {c.check: c.detail for c in by_status["unknown"]}
    alone = unknown.get("one process", "")
    if alone and not verification.steps and not alone.endswith("to the end"):
        return "fails alone", alone
    if "reproducible" in unknown:
        return "not reproducible", unknown["reproducible"]
    if not verification.holds:
        return "not observed", json.dumps(unknown)
    shared = [c.detail for c in verification.checks if c.check.endswith("work shared")]
    doubts = [f"{n}: {d}" for n, d in unknown.items() if d.startswith("not judged")]
    why = "; ".join(filter(None, [alone, *shared, *doubts]))
    return ("whole" if all("nothing" in s for s in shared) else "equal"), why


@dataclass(frozen=True)
class Case:
    """A program to verify.

    Attributes:
        name: what it is called in the counts. beside: a folder whose files it reads.
    """

    name: str
    path: Path
    beside: Path


def run(case: Case, sizes: Sequence[int], steps: int | None, timeout: float) -> Outcome:
    """Verify a program on each of some numbers of ranks.

    Args:
        steps: each run ends after so many training steps. timeout: seconds for each run.
    """
    began = time.monotonic()
    try:
        document = require_single_process(case.path, load_document(case.path))
        verification = verify_exact(
            case.path,
            document,
            sizes,
            variables=common_variables(Options(), SEED),
            steps=steps,
            timeout=timeout,
            beside=case.beside,
        )
        found = classify(verification)
    except UnusableInputError as error:
        found = "refused", str(error)
    return Outcome(case.name, *found, round(time.monotonic() - began, 1))


def outcomes_of(file: Path) -> dict[str, Outcome]:
    """The last outcome of each program in a file that `--into` has made."""
    lines = file.read_text().splitlines() if file.exists() else []
    every = [Outcome(**json.loads(line)) for line in lines]
    return {outcome.program: outcome for outcome in every}


@contextmanager
def starting_processes() -> Iterator[None]:
    """Processes of all cases are forked from one, with one thread for each operation."""
    with separate_forkservers(PRELOADED) as forks:
        os.environ.update(forks)
        os.environ.update(THREADS)
        yield


def count_outcomes(cases: Iterable[Case], given: argparse.Namespace) -> int:
    """Print a line for each case that `--into` does not have, and then the counts.

    Args:
        given: what `arguments` has parsed.

    Returns:
        the exit code, 1 where a case is wrong.
    """
    sizes = [int(size) for size in given.sizes.split(",")]
    known = outcomes_of(given.into) if given.into else {}
    for case in cases:
        if case.name in known:
            continue
        outcome = run(case, sizes, given.steps, given.timeout)
        known[outcome.program] = outcome
        print(f"{outcome.program:32} {outcome.outcome:16} {outcome.seconds:5.1f} s  {outcome.why}", flush=True)  # fmt: skip
        if given.into:
            with given.into.open("a") as into:
                into.write(json.dumps(asdict(outcome)) + "\n")
    counts = Counter(outcome.outcome for outcome in known.values())
    print(f"{sum(counts.values())} programs on {given.sizes} ranks: ", end="")
    print(", ".join(f"{counts[name]} {name}" for name in OUTCOMES))
    return int(counts["wrong"] > 0)


def arguments(description: str | None, sizes: Sequence[int]) -> argparse.ArgumentParser:
    """What every count is given on its command line."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--sizes", default=",".join(map(str, sizes)))
    parser.add_argument("--steps", type=int, help="end each run after so many training steps")
    parser.add_argument("--timeout", type=float, default=300.0, help="seconds for each run")
    parser.add_argument(
        "--into",
        type=Path,
        help="append each outcome to this file, as JSON, and leave out programs that it has",
    )
    return parser


def main() -> int:
    parser = arguments(__doc__, SIZES)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--every", type=int, default=1, help="take the first of so many programs")
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as named,
        tempfile.TemporaryDirectory() as empty,
        starting_processes(),
    ):
        files = data.write(Path(named))
        read = [file.name for file in files.iterdir()]
        texts = {path: path.read_text() for path in programs(given.names)[:: given.every]}
        cases = [
            Case(
                path.stem, path, files if any(f'"{name}' in text for name in read) else Path(empty)
            )
            for path, text in texts.items()
        ]
        return count_outcomes(cases, given)


if __name__ == "__main__":
    sys.exit(main())
