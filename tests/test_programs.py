"""The programs of `tests/programs/`: each is converted and verified by running it, or refused by name.

The first line of a program says which: `# holds`, or `# refused HVD902`. The table is
printed at the end of the run and stands in `docs/coverage.md` (`UPDATE_COVERAGE=1` writes it).
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from jupyter_hvd import convert_source
from jupyter_hvd.convert import Conversion

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


def row(path: Path, conversion: Conversion, unknown: Sequence[str] = ()) -> str:
    """A program's line in the page: what it shows, what becomes of it, which rules take part."""
    _, *codes = expected(path)
    errors = [d for d in conversion.diagnostics if d.severity == "error"]
    result = f"refused: {errors[0].message}" if errors else "; ".join(["holds", *unknown])
    rules = " ".join(sorted({change.rule for change in conversion.changes})) or " ".join(codes)
    says = ast.get_docstring(ast.parse(path.read_text()))
    return f"| `{path.stem}` | {says} | {result} | {rules} |"


@pytest.mark.slow
@pytest.mark.parametrize("path", [case(path) for path in PROGRAMS])
def test_program(path: Path, record_property) -> None:
    verification = verify(path, 2, steps=STEPS)
    outcome, *codes = expected(path)
    conversion, checks = verification.conversion, verification.checks
    unknown = [f"{c.check}: {c.detail}" for c in checks if c.status == "unknown"]
    if outcome == "refused":
        errors = [d for d in conversion.diagnostics if d.severity == "error"]
        assert conversion.status == "refused"
        assert {d.code for d in errors} == set(codes)
        assert all(d.help for d in errors)
        result = f"refused: {errors[0].message}"
    else:
        assert conversion.status == "converted", conversion.diagnostics
        assert not [check for check in checks if check.status == "fail"], checks
        passed = sum(check.status == "pass" for check in checks)
        result = "; ".join([f"holds, {passed} of {len(checks)} checks", *unknown])
    ROWS[path.stem] = row(path, conversion, unknown)
    record_property("hvd-row", f"{path.stem:<28} {result}")


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_the_page_is_current(path: Path) -> None:
    """All of a row but what only a run can tell."""
    now = row(path, convert_source(path.read_text()))
    rows = re.findall(rf"^\| `{path.stem}` .*$", PAGE.read_text(), re.MULTILINE)
    assert len(rows) == 1
    before, after = now.rsplit(" | ", 1)
    assert rows[0].startswith(before)
    assert rows[0].endswith(f" | {after}")
