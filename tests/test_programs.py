"""The programs of `tests/programs/`: each is converted and verified by running it, or refused by name.

The first line of a program says which: `# holds`, or `# refused HVD902`. The table is
printed at the end of the run and stands in `docs/coverage.md` (`UPDATE_COVERAGE=1` writes it).
"""

from __future__ import annotations

import ast
import os
import re
from pathlib import Path

import pytest

from .ledger import verify

PROGRAMS = sorted((Path(__file__).parent / "programs").glob("*.py"))
PAGE = Path(__file__).parents[1] / "docs" / "coverage.md"
STEPS = 8
ROWS: dict[str, str] = {}
HEAD = (
    "# What is covered\n\n"
    "Every program of `tests/programs/` is converted and run: the original on one process, the conversion on one\n"
    "rank and on two ranks with different seeds. Made by `UPDATE_COVERAGE=1 pytest tests/test_programs.py`.\n\n"
    "| program | what it shows | outcome | changed by |\n|---|---|---|---|\n"
)


def expected(path: Path) -> list[str]:
    return path.read_text().splitlines()[0].removeprefix("# ").split()


@pytest.fixture(scope="module", autouse=True)
def table():
    """The page, with the rows of the programs that ran in place of those before."""
    yield
    if os.environ.get("UPDATE_COVERAGE"):
        before = dict(re.findall(r"^(?=\| `(\w+)`)(.*)$", PAGE.read_text(), re.MULTILINE))
        rows = {path.stem: (before | ROWS).get(path.stem, "") for path in PROGRAMS}
        PAGE.write_text(HEAD + "".join(row + "\n" for row in rows.values() if row))


def case(path: Path):
    """A program of the suite; those that step over one restriction each are run by `make test-thorough`."""
    thorough = [pytest.mark.thorough] if path.stem.startswith("restriction_") else []
    return pytest.param(path, id=path.stem, marks=thorough)


@pytest.mark.slow
@pytest.mark.parametrize("path", [case(path) for path in PROGRAMS])
def test_program(path: Path, record_property) -> None:
    verification = verify(path, 2, steps=STEPS)
    outcome, *codes = expected(path)
    conversion = verification.conversion
    if outcome == "refused":
        errors = [d for d in conversion.diagnostics if d.severity == "error"]
        assert conversion.status == "refused"
        assert {d.code for d in errors} == set(codes)
        assert all(d.help for d in errors)
        result = f"refused: {errors[0].message}"
    else:
        assert conversion.status == "converted", conversion.diagnostics
        assert not [check for check in verification.checks if check.status == "fail"], (
            verification.checks
        )
        passed = [check.check for check in verification.checks if check.status == "pass"]
        unknown = [
            f"{check.check}: {check.detail}"
            for check in verification.checks
            if check.status == "unknown"
        ]
        result = f"holds, {len(passed)} of {len(verification.checks)} checks" + "".join(
            f"; {u}" for u in unknown
        )
    rules = " ".join(sorted({change.rule for change in conversion.changes})) or " ".join(codes)
    says = ast.get_docstring(ast.parse(path.read_text()))
    ROWS[path.stem] = f"| `{path.stem}` | {says} | {result} | {rules} |"
    record_property("hvd-row", f"{path.stem:<28} {result}")


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_program_is_mentioned(path: Path) -> None:
    assert f"`{path.stem}`" in PAGE.read_text()
