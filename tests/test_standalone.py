"""Stand-alone programs, run on two ranks: as verified as the others, and in need of Horovod alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_hvd import Options, convert_source

from .ledger import verify

PROGRAMS = Path(__file__).parent / "programs"
STANDALONE = Options(standalone=True)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["fit_own_schedule", "fit_random_split", "fit_sequence", "tape_tf_function"]
)
def test_holds(name: str) -> None:
    verification = verify(PROGRAMS / f"{name}.py", 2, steps=8, options=STANDALONE)
    assert verification.holds, verification.checks


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["fit_random_split", pytest.param("tape_class", marks=pytest.mark.thorough)]
)
def test_runs_where_this_package_is_not(name: str, tmp_path: Path) -> None:
    code = convert_source((PROGRAMS / f"{name}.py").read_text(), options=STANDALONE).code
    program = tmp_path / "program.py"
    program.write_text(f"import sys; sys.modules['jupyter_hvd'] = None\n{code}")
    done = subprocess.run(
        [Path(sys.executable).with_name("horovodrun"), "-np", "2", sys.executable, program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
