"""Verification finds numbers whose unit differs from what they meet, and names the line of the original."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "generated"))

import scaled_process
from scaled_process import ScaledRun
from unit_cases import FAULTS, RIGHT, Case

from jupyter_hvd.verify.exact.scaling import check_scaling

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("scaled process")]
Run = Callable[[str, int], ScaledRun]
SIZE = 2


@pytest.fixture(scope="module")
def run() -> Iterator[Run]:
    with scaled_process.pool() as pool:
        yield cache(lambda source, size: pool.submit(scaled_process.run, source, size).result(300))


def failed_checks(run: Run, case: Case, code: str) -> dict[str, str]:
    """What fails of a conversion, by check."""
    original, scaled = run(case.source, 1), run(code, SIZE)
    assert original.error == scaled.error == ""
    found = check_scaling(original.record, scaled.record, SIZE)
    return {c.check.partition(": ")[2]: c.detail for c in found if c.status == "fail"}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_found_with_its_line(run: Run, name: str) -> None:
    case = FAULTS[name]
    found = failed_checks(run, case, case.convert(case.wrong))
    assert any(re.search(rf"{case.line}\b", detail) for detail in found.values()), found


@pytest.mark.parametrize("name", [*FAULTS, *RIGHT])
def test_right_programs_are_not_reported(run: Run, name: str) -> None:
    case = {**FAULTS, **RIGHT}[name]
    assert failed_checks(run, case, case.convert(case.right)) == {}
