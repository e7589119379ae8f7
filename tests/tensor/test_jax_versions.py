"""The kernels under the newest JAX and an older one, and on eight virtual devices, each in a process of
its own.
"""

import subprocess
import sys
from pathlib import Path

import jax_versions
import pytest

HERE = Path(__file__).parent
OLDER = HERE.parents[1] / ".venv-tf215" / "bin" / "python"
needs_older = pytest.mark.needs("tf215")


def run(python, script, *words):
    done = subprocess.run(
        [python, HERE / script, *words], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.parametrize(
    "python", [sys.executable, pytest.param(OLDER, marks=[needs_older, pytest.mark.thorough])]
)
@pytest.mark.long
def test_sharded_sums_on_eight_devices(python):
    assert "one all-reduce" in run(python, "sharded.py")


@pytest.mark.thorough
def test_many_random_programs_on_eight_devices():
    assert "one all-reduce" in run(sys.executable, "sharded.py", "1", "20")


@pytest.mark.thorough
@needs_older
def test_many_random_programs_under_an_older_jax():
    assert "agrees" in run(OLDER, "jax_versions.py", "200")


@pytest.mark.slow
@needs_older
@pytest.mark.long
def test_programs_under_an_older_jax():
    assert "agrees" in run(OLDER, "jax_versions.py")


def test_compositions_with_transformations():
    jax_versions.compositions()


def test_fences_and_blocks_change_no_value():
    jax_versions.fences_and_blocks()
