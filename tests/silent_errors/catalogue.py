"""Who finds each silent error of `entries.py`, after how many steps, and whether the right line is named.

`python -m tests.silent_errors.catalogue [--into FILE] [--page] [NAME …]` judges each entry, or those that are named, and prints a
line for each. With `--into`, verdicts are appended to a file, and those that it has are not made again. `--page` writes
`docs/silent-errors.md` from all verdicts.

The original of several entries runs once. Processes are forked from one that has imported TensorFlow.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from jupyter_hvd import convert_source
from jupyter_hvd.convert import Options
from jupyter_hvd.convert.documents import load_document
from jupyter_hvd.convert.unconverted_programs import common_variables
from jupyter_hvd.ranks.forks import separate_forkservers
from jupyter_hvd.verify.against.verification import (
    AgainstVerification,
    KnownRuns,
    Program,
    verify_against,
)
from jupyter_hvd.verify.exact.verification import PRELOADED, SEED

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "exact")]

from entries import ENTRIES, Entry, Finder  # noqa: E402
from referee import Referee  # noqa: E402
from shared_laboratory import PROGRAMS, Laboratory, StuckError, expected  # noqa: E402
from sharing_mutants import FOUND_BY  # noqa: E402

PAGE = Path(__file__).parents[2] / "docs" / "silent-errors.md"
#: One thread for each operation, and few messages: ranks that share few cores would hinder one another.
THREADS = {
    "OMP_NUM_THREADS": "1",
    "TF_NUM_INTRAOP_THREADS": "1",
    "TF_NUM_INTEROP_THREADS": "2",
    "HOROVOD_CYCLE_TIME": "2",
}
TIMEOUT = 60.0
#: How the page calls them.
FINDERS: dict[Finder, str] = {
    "verify --against": "`verify --against` on two ranks",
    "guard": "the ranks, which stop",
    "verify": "`verify` of a shared program, with the fault planted into the runtime",
    "conversion": "the conversion, which is refused",
}


@dataclass(frozen=True)
class Verdict:
    """What became of an entry.

    Attributes:
        found: whether the program was called wrong. kind: what the error was called.
        step: at which it shows, 0 if that is not known.
        line: that was named. named: whether that is one of the entry's; None where the error is in no line of the program.
        seconds: of wall time.
    """

    entry: str
    found: bool
    kind: str
    step: int
    line: str
    named: bool | None
    seconds: float


def put(folder: Path, name: str, text: str) -> Path:
    """A file in a folder that is named by the text, so that equal texts are one file."""
    own = folder / hashlib.sha256(text.encode()).hexdigest()[:12]
    own.mkdir(exist_ok=True)
    (own / name).write_text(text)
    return own / name


def verify_text(folder: Path, original: str, other: str, known: KnownRuns) -> AgainstVerification:
    """Judge a program that distributes its training itself, on two ranks."""
    paths = put(folder, "train.py", original), put(folder, "train_hvd.py", other)
    one, two = (Program(path, load_document(path)) for path in paths)
    variables = common_variables(Options(), SEED)
    return verify_against(one, two, variables=variables, timeout=TIMEOUT, known=known)


def judge_apart(entry: Entry, folder: Path, known: KnownRuns) -> Verdict:
    """The verdict of `verify --against`, whose processes are the program's own."""
    began = time.monotonic()
    outcome = verify_text(folder, entry.original, entry.text, known)
    return verdict_on(entry, outcome, time.monotonic() - began)


def judge_living(entry: Entry, folder: Path, referee: Referee) -> Verdict:
    """The same verdict, on processes that live on."""
    began = time.monotonic()
    paths = put(folder, "train.py", entry.original), put(folder, "train_hvd.py", entry.text)
    outcome = referee.judge(*paths)
    return verdict_on(entry, outcome, time.monotonic() - began)


def verdict_on(entry: Entry, outcome: AgainstVerification, seconds: float) -> Verdict:
    """What an outcome is worth: without a fault it is a miss, whose reason is why steps were not compared."""
    fault, fails, unjudged = outcome.fault, outcome.fails, outcome.unjudged
    seconds = round(seconds, 1)
    if fault is None and fails:
        return Verdict(entry.name, True, "ranks wait for one another", 0, "", False, seconds)
    if fault is None:
        return Verdict(entry.name, False, unjudged or "called right", 0, "", False, seconds)
    number = int((re.findall(r"line (\d+)", fault.line) or ["0"])[0])
    return Verdict(
        entry.name, True, fault.kind, fault.step, fault.line, number in entry.lines, seconds
    )


def first_sentence(text: str) -> str:
    return re.split(r"(?<=\w)\.(?:\s|$)", text, maxsplit=1)[0]


def judge_guarded(entry: Entry, laboratory: Laboratory) -> Verdict:
    """Whether ranks stop that share a program which is not the same on all of them."""
    began = time.monotonic()
    verdict, why = laboratory.judge(entry.path.resolve(), 2)
    line = (re.findall(r"line \d+", why) or [""])[0]
    seconds = round(time.monotonic() - began, 1)
    return Verdict(entry.name, verdict == "refused", first_sentence(why), 1, line, None, seconds)


def judge_mutant(entry: Entry, laboratory: Laboratory) -> Verdict:
    """Whether a run is not called equal that shares a program with a fault in the runtime."""
    began = time.monotonic()
    program = FOUND_BY[entry.mutant]
    verdict, why = laboratory.judge(PROGRAMS / f"{program}.py", 2, entry.mutant)
    step = int((re.findall(r"at step (\d+)", why) or ["0"])[0])
    seconds = round(time.monotonic() - began, 1)
    found = verdict in ("wrong", "refused") and verdict != expected(program)
    return Verdict(entry.name, found, verdict, step, "", None, seconds)


def judge_refusal(entry: Entry) -> Verdict:
    """Whether a program is not converted, with an error at the right line."""
    began = time.monotonic()
    conversion = convert_source(entry.text)
    errors = [d for d in conversion.diagnostics if d.severity == "error"]
    line = errors[0].line if errors else 0
    seconds = round(time.monotonic() - began, 1)
    kind = errors[0].code if errors else conversion.status
    return Verdict(entry.name, bool(errors), kind, 0, f"line {line}", line in entry.lines, seconds)


@contextmanager
def starting_processes() -> Iterator[None]:
    """Processes of all entries are forked from one, with one thread for each operation."""
    with separate_forkservers(PRELOADED) as forks:
        os.environ.update({**THREADS, **forks})
        yield


def judge_entries(entries: Sequence[Entry], into: Path | None = None) -> Iterator[Verdict]:
    """Judge entries in turn; verdicts that a file has are taken from it, and others added."""
    made = read_verdicts(into)
    laboratory, referee = Laboratory(), Referee()
    known: KnownRuns = {}
    with tempfile.TemporaryDirectory() as folder, starting_processes():
        try:
            for entry in entries:
                if entry.name not in made:
                    if entry.finder == "verify --against" and entry.apart:
                        verdict = judge_apart(entry, Path(folder), known)
                    elif entry.finder == "verify --against":
                        try:
                            verdict = judge_living(entry, Path(folder), referee)
                        except StuckError:
                            verdict = judge_apart(entry, Path(folder), known)
                    elif entry.finder == "conversion":
                        verdict = judge_refusal(entry)
                    else:
                        judge = judge_guarded if entry.finder == "guard" else judge_mutant
                        verdict = judge(entry, laboratory)
                    made[entry.name] = verdict
                    if into is not None:
                        with into.open("a") as stream:
                            stream.write(json.dumps(asdict(verdict)) + "\n")
                yield made[entry.name]
        finally:
            laboratory.close()
            referee.close()


def read_verdicts(file: Path | None) -> dict[str, Verdict]:
    if file is None or not file.exists():
        return {}
    verdicts = (Verdict(**json.loads(line)) for line in file.read_text().splitlines())
    return {verdict.entry: verdict for verdict in verdicts}


def write_page(entries: Sequence[Entry], verdicts: dict[str, Verdict]) -> str:
    """The page: totals, misses, and a table for each finder."""
    judged = [(entry, verdicts[entry.name]) for entry in entries if entry.name in verdicts]
    found = [pair for pair in judged if pair[1].found]
    misses = [(entry, verdict) for entry, verdict in judged if not verdict.found]
    asked = [verdict for _, verdict in judged if verdict.named is not None]
    named = [verdict for verdict in asked if verdict.named]
    first = [verdict.step for _, verdict in found if verdict.step]
    totals = [
        ("errors in the list; judged", f"{len(entries)}; {len(judged)}"),
        ("found", f"{len(found)} ({100 * len(found) // len(judged)} %)"),
        (
            "of those with a line, the right line named",
            f"{len(named)} of {len(asked)} ({100 * len(named) // len(asked)} %)",
        ),
        (
            "found at step 1; by step 3",
            f"{sum(s == 1 for s in first)}; {sum(s <= 3 for s in first)} of {len(first)}",
        ),
    ]
    lines = [
        "# Silent errors",
        "",
        "Errors of distributed training that raise no exception: losses fall, but the result is not that of one process. Each is "
        "a small program of `tests/silent_errors/entries.py`, most of them a correct program with a few edited lines. This page "
        "is generated by `python -m tests.silent_errors.catalogue --page`, which runs them all.",
        "",
        "The *step* is the first at which the error shows. The *right line* is where the error stands, or the statement of the "
        "training step at which it takes effect; a fault of our runtime is in no line of the program. *Called* is the finder's "
        "report: for faults of our runtime, *wrong* (results differ) or *refused* (the ranks stop). *Old converter* is an "
        "earlier version of this package.",
        "",
        "| | |",
        "|---|---|",
        *(f"| {name} | {said} |" for name, said in totals),
        "",
        "## Misses",
        "",
        *(f"- **{e.name}** ({e.source}): {e.error}. {v.kind}" for e, v in misses),
        *(() if misses else ("None.",)),
        "",
    ]
    left = [entry.name for entry in entries if entry.name not in verdicts]
    if left:
        lines += ["## Not judged yet", "", ", ".join(left) + ".", ""]
    for finder, said in FINDERS.items():
        part = [(entry, verdict) for entry, verdict in judged if entry.finder == finder]
        if not part:
            continue
        kinds = Counter(verdict.found for _, verdict in part)
        lines += [
            f"## Found by {said}",
            "",
            f"{kinds[True]} of {len(part)}.",
            "",
            "| error | source | what goes wrong | called | step | right line |",
            "|---|---|---|---|---|---|",
            *(row(entry, verdict) for entry, verdict in part),
            "",
        ]
    return "\n".join(lines).rstrip() + "\n"


def row(entry: Entry, verdict: Verdict) -> str:
    called = verdict.kind if verdict.found else "**missed**"
    step = str(verdict.step or "")
    named = {True: "yes", False: "no", None: ""}[verdict.named]
    return f"| {entry.name} | {entry.source} | {entry.error} | {called} | {step} | {named} |"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--into", type=Path)
    parser.add_argument("--page", action="store_true", help=f"write {PAGE.name}")
    given = parser.parse_args()
    chosen = [e for e in ENTRIES if not given.names or e.name in given.names]
    verdicts = {}
    for verdict in judge_entries(chosen, given.into):
        verdicts[verdict.entry] = verdict
        mark = "found" if verdict.found else "MISSED"
        named = {True: "line", False: "no line", None: ""}[verdict.named]
        said = f"{verdict.step} {verdict.kind} {verdict.line}"
        print(f"{verdict.entry:32} {mark:6} {named:8} {verdict.seconds:5.1f} s  {said}", flush=True)
    found = sum(verdict.found for verdict in verdicts.values())
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu = sum(u.ru_utime + u.ru_stime for u in used)
    print(f"{found} of {len(verdicts)} found; {cpu:.0f} CPU seconds beside those of forks")
    if given.page:
        PAGE.write_text(write_page(ENTRIES, {**read_verdicts(given.into), **verdicts}))
    return int(found < 0.95 * len(verdicts))


if __name__ == "__main__":
    sys.exit(main())
