"""Faults of the sharing under `jupyter hvd verify --batch global`: how many it finds.

`python -m tests.exact.mutant_counts [MUTANT …]` plants each fault of `sharing_mutants` into a program, verifies that on two
ranks, and prints a line for each, and then the count. A fault is found where the program comes to another outcome with it.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from .program_counts import Case, run, starting_processes
from .shared_laboratory import PROGRAMS, expected
from .sharing_mutants import FOUND_BY, with_fault

TIMEOUT = 60.0


def faulty_programs(work: Path, names: Sequence[str] = ()) -> Iterator[tuple[str, Case]]:
    """The outcome that each program has without its fault, and the program with it, in a folder of its own."""
    for mutant in names or FOUND_BY:
        program = FOUND_BY[mutant]
        own = work / mutant
        own.mkdir()
        path = own / f"{program}.py"
        path.write_text(with_fault(mutant, (PROGRAMS / f"{program}.py").read_text()))
        yield expected(program), Case(mutant, path, own)


def main() -> int:
    missed = 0
    with tempfile.TemporaryDirectory() as work, starting_processes():
        cases = list(faulty_programs(Path(work), sys.argv[1:]))
        for outcome, case in cases:
            found = run(case, (2,), None, TIMEOUT)
            verdict = "missed" if found.outcome == outcome else "found"
            missed += verdict == "missed"
            said = f"{found.outcome}: {found.why[:200]}"
            print(f"{case.name:32} {verdict:8} {found.seconds:5.1f} s  {said}", flush=True)
    print(f"{len(cases)} faults: {len(cases) - missed} found, {missed} missed")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
