"""Every program of `tests/programs/` is converted as expected (`tests/suite.py`). `make accept` takes what comes out now."""

from __future__ import annotations

import ast
import io
import os
import tokenize

import pytest

from jupyter_hvd import convert_source

from ..coverage_page import assert_row_is_current
from ..suite import MARK, PROGRAMS, Program, described, found


def comments(source: str) -> list[str]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return [token.string for token in tokens if token.type == tokenize.COMMENT]


def accept(program: Program) -> Program:
    """Writes the first line of a program, and its golden file."""
    first, _, rest = program.source.partition("\n")
    assert first.startswith(MARK.strip())
    conversion = convert_source(program.source)
    program.path.write_text(f"{MARK}{' '.join(found(conversion))}\n{rest}")
    accepted = Program(program.path)
    accepted.golden.write_text(described(accepted.source, convert_source(accepted.source)))
    return accepted


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.name)
def test_converted_as_expected(program: Program) -> None:
    """And comments stay, every change says why and what it changes, another conversion changes nothing, and the page agrees."""
    if os.environ.get("ACCEPT"):
        program = accept(program)
    source = program.source
    conversion = convert_source(source)
    assert found(conversion) == program.expected, "make accept"
    assert described(source, conversion) == program.golden.read_text(), "make accept"
    if program.is_run:
        assert_row_is_current(program, conversion)
    lines = source.splitlines()
    for change in conversion.changes:
        assert change.why
        assert change.before != change.after
        before = change.before.splitlines()
        assert before == lines[change.line - 1 :][: len(before)]
    ast.parse(conversion.code)
    assert [c for c in comments(conversion.code) if c in comments(source)] == comments(source)
    if conversion.status == "converted":
        again = convert_source(conversion.code)
        assert (again.code, again.status) == (conversion.code, "unchanged")
        assert not [d for d in again.diagnostics if d.severity == "error"]
    else:
        assert conversion.code == source
        assert all(d.help for d in conversion.diagnostics)


def test_no_golden_file_is_left_over() -> None:
    golden = {program.golden for program in PROGRAMS}
    assert golden == set(PROGRAMS[0].path.parent.glob("*.expected"))
