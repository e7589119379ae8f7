"""`docs/coverage.md`: a row for each program of `tests/programs/` that is run."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

from jupyter_hvd.convert import Conversion

from .stacks import STACKS
from .suite import REFUSED, Program

PAGE = Path(__file__).parents[1] / "docs" / "coverage.md"
KERASES = tuple(stack.keras for stack in STACKS)


def outcomes_on_the_page() -> dict[str, dict[str, str]]:
    """By program and Keras."""
    cells = [line.split(" | ") for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    return {
        first.strip("| `"): dict(zip(KERASES, outcomes, strict=True))
        for first, _, *outcomes, _ in cells
        if len(outcomes) == len(KERASES)
    }


def row(program: Program, conversion: Conversion, outcomes: Mapping[str, str]) -> str:
    """A program's line in the page: what it shows, what becomes of it, which rules take part."""
    said = []
    for keras in KERASES:
        reason = program.cannot_run(keras)
        said.append(f"cannot run it: {reason}" if reason else outcomes[keras])
    codes = [code for code in program.expected if code != REFUSED]
    rules = " ".join(sorted({change.rule for change in conversion.changes}) or codes)
    says = ast.get_docstring(ast.parse(program.source))
    return f"| `{program.name}` | {says} | {' | '.join(said)} | {rules} |"


def refusal(conversion: Conversion) -> str | None:
    """The first reason for which a conversion is refused."""
    errors = [d for d in conversion.diagnostics if d.severity == "error"]
    return f"refused: {errors[0].message}" if errors else None


def assert_row_is_current(program: Program, conversion: Conversion) -> None:
    """All of a program's row but what only a run can tell."""
    outcomes = outcomes_on_the_page()[program.name]
    assert row(program, conversion, outcomes) in PAGE.read_text().splitlines()
    start = refusal(conversion) or "holds"
    assert all(
        outcome.startswith((start, "cannot run it", "not run")) for outcome in outcomes.values()
    )
