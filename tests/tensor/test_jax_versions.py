"""The kernels under the old JAX and the newest one, and on eight virtual devices, each in a process of
its own.
"""

import subprocess
import sys
from pathlib import Path

import newest
import pytest

HERE = Path(__file__).parent
NEWEST = HERE.parents[1] / ".venv-tf218" / "bin" / "python"
needs_newest = pytest.mark.skipif(
    not NEWEST.exists(), reason="no .venv-tf218: `make env-tf218` makes it"
)


def run(python, script):
    done = subprocess.run(
        [python, HERE / script], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("python", [sys.executable, pytest.param(NEWEST, marks=needs_newest)])
def test_sharded_sums_on_eight_devices(python):
    assert "one all-reduce" in run(python, "sharded.py")


@pytest.mark.slow
@needs_newest
def test_programs_under_the_newest_jax():
    assert "agrees" in run(NEWEST, "newest.py")


def test_compositions_with_transformations():
    newest.compositions()


def test_fences_and_blocks_change_no_value():
    newest.fences_and_blocks()
