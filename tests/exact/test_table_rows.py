"""The list of `table_rows`: its conversions and planted faults, and, with real ranks, its verdicts."""

from __future__ import annotations

import pytest

from jupyter_hvd import Options, convert_source
from jupyter_hvd.verify.exact.verification import SIZES

from .table_rows import (
    HELD,
    INPUTS,
    MODES,
    PROGRAMS_OF_ROWS,
    RIGHT,
    ROWS,
    Row,
    path_of,
    verify,
)

FAULTY = [row for row in ROWS if row.fault is not None]
PROGRAMS = sorted({program for row in (*ROWS, *HELD, *INPUTS) for program in row.programs})


def test_each_row_has_a_fault() -> None:
    assert [row.name for row in ROWS] == [f"row-{number}" for number in range(1, 20)]
    assert list(ROWS) == FAULTY


@pytest.mark.parametrize("program", sorted({*PROGRAMS} - {*PROGRAMS_OF_ROWS}))
def test_programs_are_converted(program: str) -> None:
    conversion = convert_source(path_of(program).read_text(), options=Options())
    expected = "refused" if program.startswith("refused_") else "converted"
    assert conversion.status == expected, conversion.diagnostics


@pytest.mark.parametrize("row", FAULTY, ids=lambda row: row.name)
def test_faults_change_the_conversion(row: Row) -> None:
    assert row.fault is not None
    source = path_of(row.programs[0]).read_text()
    compile(row.fault.plant(source), row.name, "exec")


def verifications() -> list:
    """Each program in each mode."""
    return [
        pytest.param(program, batch, id=f"{program}-{batch}")
        for program in PROGRAMS
        for batch in MODES
    ]


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.xdist_group("exact")
@pytest.mark.parametrize(("program", "batch"), verifications())
def test_ranks_give_the_result_of_one_process(program: str, batch: str) -> None:
    expected = ("refused",) if program.startswith("refused_") else RIGHT
    found = verify(path_of(program), batch, SIZES)
    assert {size: outcome in expected for size, (outcome, _) in found.items()} == {
        2: True,
        3: True,
    }, found


@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.xdist_group("exact")
@pytest.mark.parametrize("row", FAULTY, ids=lambda row: row.name)
def test_faults_are_found(row: Row) -> None:
    ((outcome, why),) = verify(path_of(row.programs[0]), "per-rank", (2,), row.fault).values()
    assert outcome == "wrong", why
