"""`jupyter hvd verify ORIGINAL --against OTHER`: programs that are right by Horovod's documentation, and ones with an error."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("against")]
#: Programs that every run of the tests judges.
QUICK = ("right/loop_tape", "wrong/not_averaged", "wrong/no_broadcast")
#: Right programs whose ranks take the original's examples in another order, draw random numbers of their own, or round.
NOT_COMPARABLE = (
    "right/loop_shuffled", "right/loop_dropout", "right/loop_seed_by_rank", "right/loop_compressed",
)  # fmt: skip
#: Its ranks, and one rank too, begin with other weights than the original, so that nothing can be compared with it.
NOT_JUDGED = "right/loop_seed_by_rank"
#: It takes moments over the rows of each rank, as Horovod's pages have it.
BY_DESIGN = "right/loop_normalized"


@dataclass(frozen=True)
class Case:
    """A program, and what its first lines say of it.

    Attributes:
        kind: of the error that was planted, "" for a right program. line: that the verdict is to name.
    """

    path: Path
    original: Path
    kind: str
    line: str

    @property
    def name(self) -> str:
        return f"{self.path.parent.name}/{self.path.stem}"


def read_case(path: Path) -> Case:
    lines = path.read_text().splitlines()
    said = dict(line[2:].split(": ") for line in lines[:2] if line.startswith("# "))
    marked = [n for n, line in enumerate(lines, 1) if line.endswith("# fault")]
    line = f"{path.name}, line {marked[0]}" if marked else ""
    return Case(path, HERE / "originals" / f"{said['original']}.py", said.get("kind", ""), line)


CASES = [
    read_case(path) for kind in ("right", "wrong") for path in sorted((HERE / kind).glob("*.py"))
]


def judge(hvd: Any, case: Case, *options: object) -> tuple[int, dict[str, Any]]:
    done = hvd(
        "verify", case.original, "--against", case.path, "--json", "--timeout", 100, *options
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(c, id=c.name, marks=[] if c.name in QUICK else pytest.mark.thorough)
        for c in CASES
    ],
)
@pytest.mark.long
def test_the_verdict_on_a_program(hvd, case: Case) -> None:
    code, outcome = judge(hvd, case)
    fault = outcome["fault"]
    if case.kind:
        assert (code, outcome["holds"]) == (1, False)
        assert fault is not None, outcome
        assert (fault["kind"], fault["line"]) == (case.kind, case.line), outcome
        return
    assert fault is None, outcome
    assert not any(check["status"] == "fail" for check in outcome["checks"]), outcome
    holds = case.name != NOT_JUDGED
    assert (code, outcome["holds"]) == (int(not holds), holds), outcome
    assert bool(outcome["design"]) == (case.name == BY_DESIGN), outcome
    apart = case.name in (*NOT_COMPARABLE, BY_DESIGN) or outcome["mode"] == "scaled"
    assert outcome["compared"] == (0 if apart else outcome["steps"]), outcome


@pytest.mark.parametrize(
    ("original", "other", "options", "said"),
    [
        ("right/loop_tape.py", "right/loop_tape.py", (), "it uses Horovod itself"),
        ("originals/loop.py", "right/missing.py", (), "missing.py"),
        ("originals/loop.py", "", (), "neither a notebook (.ipynb) nor a script (.py)"),
        ("originals/loop.py", "right/loop_tape.py", ("-n", 1), "1 ranks"),
    ],
)
def test_what_is_refused(hvd, original: str, other: str, options: tuple, said: str) -> None:
    done = hvd("verify", HERE / original, "--against", HERE / other, *options)
    assert done.returncode == 2
    assert said in done.stderr
