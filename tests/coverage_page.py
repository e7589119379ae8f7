"""`docs/coverage.md`: a row for each program of `tests/programs/` that is run."""

from __future__ import annotations

import ast
import os
from pathlib import Path

from jupyter_hvd.convert import Conversion

from .stacks import STACKS
from .suite import REFUSED, RUN, Program

PAGE = Path(__file__).parents[1] / "docs" / "coverage.md"
KERASES = tuple(stack.keras for stack in STACKS)
HEAD = (
    "# What is covered\n\n"
    "This table lists every complete program of `tests/programs/`, and the rules that change it. Tests convert each program.\n"
    "They run the original in one process, and the conversion in one process that pretends to be two ranks and on two ranks.\n"
    "`make test` does so on TensorFlow 2.21 with Keras 3, except for programs that are variants of others.\n"
    "`make test-thorough` runs the variants, too, and all programs on 2.15 with Keras 2 and on 2.18 with `tf-keras`. A test\n"
    "fails if the results differ. `make accept` writes this page.\n\n"
    "| program | what it shows | outcome | changed by |\n|---|---|---|---|\n"
)


def rows_on_the_page() -> dict[str, str]:
    """The row of each program that has one, by its name."""
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    return {line.partition("`")[2].partition("`")[0]: line for line in rows}


def write_row(program: Program, row: str) -> None:
    rows = rows_on_the_page() | {program.name: row}
    PAGE.write_text(HEAD + "".join(f"{rows[p.name]}\n" for p in RUN if p.name in rows))


def row(program: Program, conversion: Conversion) -> str:
    """A program's line in the page: what it shows, what becomes of it and on which Keras, which rules take part."""
    said = [refusal(conversion) or conversion.status]
    for keras in KERASES:
        if reason := program.cannot_run(keras):
            said.append(f"not for {keras}: {reason}")
    codes = [code for code in program.expected if code != REFUSED]
    rules = " ".join(sorted({change.rule for change in conversion.changes}) or codes)
    says = ast.get_docstring(ast.parse(program.source))
    return f"| `{program.name}` | {says} | {'; '.join(said)} | {rules} |"


def refusal(conversion: Conversion) -> str | None:
    """The first reason for which a conversion is refused."""
    errors = [d for d in conversion.diagnostics if d.severity == "error"]
    return f"refused: {errors[0].message}" if errors else None


def assert_row_is_current(program: Program, conversion: Conversion) -> None:
    """A program's row; with `ACCEPT=1`, as by `make accept`, it is written first."""
    written = row(program, conversion)
    if os.environ.get("ACCEPT"):
        write_row(program, written)
    assert rows_on_the_page()[program.name] == written
