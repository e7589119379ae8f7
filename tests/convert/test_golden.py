"""Whole programs before (`NAME.py`) and after (`NAME.hvd.py`), as files to be read side by side.

`seed_…` shows a rule of the seeds; the others a form that the seeds get wrong.
`UPDATE_GOLDEN=1 pytest` writes the second files anew; read the diff before you keep it.
"""

from __future__ import annotations

import ast
import io
import os
import tokenize
from pathlib import Path

import pytest

from jupyter_hvd import convert_source

PROGRAMS = sorted(
    p for p in (Path(__file__).parent / "golden").glob("*.py") if ".hvd" not in p.name
)


def comments(source: str) -> list[str]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return [token.string for token in tokens if token.type == tokenize.COMMENT]


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: path.stem)
def test_golden(path: Path) -> None:
    before, after = path.read_text(), path.with_suffix(".hvd.py")
    conversion = convert_source(before)
    assert conversion.status == "converted", conversion.diagnostics
    if os.environ.get("UPDATE_GOLDEN"):
        after.write_text(conversion.code)
    assert conversion.code == after.read_text()
    ast.parse(conversion.code)
    assert [c for c in comments(conversion.code) if c in comments(before)] == comments(before)
    again = convert_source(conversion.code)
    assert (again.code, again.status) == (conversion.code, "unchanged")
    assert not [d for d in again.diagnostics if d.severity == "error"]


def test_every_change_says_why_and_where() -> None:
    for path in PROGRAMS:
        lines = path.read_text().splitlines()
        for change in convert_source(path.read_text()).changes:
            assert change.rule.startswith("HVD")
            assert change.why
            assert change.before != change.after
            assert (
                change.before.splitlines()
                == lines[change.line - 1 :][: len(change.before.splitlines())]
            )
