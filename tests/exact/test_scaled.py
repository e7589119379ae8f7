"""Programs converted with `--batch per-rank`: two ranks train as the scaled program does in one process, and faults are found."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from shared_laboratory import PROGRAMS, Laboratory
from sharing_mutants import FOUND_BY_SCALED

from jupyter_hvd import Options, convert_source

from .table_rows import PROGRAMS_OF_ROWS, path_of

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("exact")]
SCALED = Options()
#: pytest's fixture `record_property`.
Noted = Callable[[str, object], None]
OWN = PROGRAMS.parent / "scaled"
#: What `make test` runs; the rest is for `make test-thorough`.
QUICK = ("config_dictionary", "own_sequence", "taken_batches", "rate_floor", "warmup_class")


@pytest.fixture(scope="module")
def laboratory() -> Iterator[Laboratory]:
    found = Laboratory()
    yield found
    found.close()


def mutants() -> list:
    quick = ("rate_twice", "batches_not_joined")
    return [
        pytest.param(name, marks=() if name in quick else pytest.mark.thorough)
        for name in FOUND_BY_SCALED
    ]


def cases() -> list:
    paths = dict.fromkeys([*map(path_of, PROGRAMS_OF_ROWS), *sorted(OWN.glob("*.py"))])
    return [
        pytest.param(path, id=path.stem, marks=() if path.stem in QUICK else pytest.mark.thorough)
        for path in paths
    ]


def scaled(path: Path, folder: Path) -> Path:
    """The conversion of a program, in a file of its name."""
    conversion = convert_source(path.read_text(), options=SCALED)
    assert conversion.status == "converted", conversion.diagnostics
    found = folder / path.name
    found.write_text(conversion.code)
    return found


@pytest.mark.parametrize("path", cases())
@pytest.mark.long
def test_equal_to_the_scaled_program(laboratory: Laboratory, tmp_path: Path, path: Path) -> None:
    verdict, why = laboratory.judge(scaled(path, tmp_path), 2, virtual=2)
    assert verdict == "equal", why


@pytest.mark.long
@pytest.mark.parametrize("mutant", mutants())
def test_faults_are_found(
    laboratory: Laboratory, tmp_path: Path, mutant: str, record_property: Noted
) -> None:
    record_property("mutant", "in the sharing of a scaled program")
    folder = OWN if (OWN / f"{FOUND_BY_SCALED[mutant]}.py").exists() else PROGRAMS
    path = scaled(folder / f"{FOUND_BY_SCALED[mutant]}.py", tmp_path)
    verdict, why = laboratory.judge(path, 2, mutant, virtual=2)
    assert verdict == "wrong", why
