"""Faults of the sharing under `jupyter hvd verify --batch global`: how many it finds.

`python -m tests.exact.mutant_counts [MUTANT …]` plants each fault of `sharing_mutants` into a program, verifies that on two
ranks, and prints a line for each, and then the count. A fault is found where the ranks stop or do not give one process's
numbers, and do otherwise without it. It is not judged where one process, which has no fault, fails or differs from run to run.
"""

from __future__ import annotations

import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from .program_counts import Case, run, starting_processes
from .shared_laboratory import PROGRAMS, expected
from .sharing_mutants import FOUND_BY, with_fault

TIMEOUT = 120.0
#: Outcomes that say nothing of the ranks.
NOT_JUDGED = ("fails alone", "not reproducible", "not observed")


def faulty_programs(work: Path, names: Sequence[str] = ()) -> Iterator[tuple[str, Case]]:
    """The outcome that each program has without its fault, and the program with it, in a folder of its own."""
    for mutant in names or FOUND_BY:
        program = FOUND_BY[mutant]
        own = work / mutant
        own.mkdir()
        path = own / f"{program}.py"
        path.write_text(with_fault(mutant, (PROGRAMS / f"{program}.py").read_text()))
        yield expected(program), Case(mutant, path, own)


def verdict_on(found: str, outcome: str) -> str:
    """What is known of a fault.

    Args:
        found, outcome: of the program with the fault, and without it.
    """
    if found in NOT_JUDGED:
        return "not judged"
    return "found" if found in ("wrong", "refused") and found != outcome else "missed"


def main() -> int:
    verdicts: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as work, starting_processes():
        cases = list(faulty_programs(Path(work), sys.argv[1:]))
        for outcome, case in cases:
            found = run(case, (2,), None, TIMEOUT)
            verdict = verdict_on(found.outcome, outcome)
            verdicts[verdict] += 1
            said = f"{found.outcome}: {found.why[:200]}"
            print(f"{case.name:32} {verdict:10} {found.seconds:5.1f} s  {said}", flush=True)
    counted = ", ".join(f"{verdicts[v]} {v}" for v in ("found", "missed", "not judged"))
    print(f"{len(cases)} faults: {counted}")
    return int(verdicts["found"] < len(cases))


if __name__ == "__main__":
    sys.exit(main())
