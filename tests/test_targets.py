"""Keras 2, in environments of its own: in an older TensorFlow, and as the package `tf-keras`.

What the stack of the tests shows of every program (`test_programs.py`) is shown here of a few; `make test-thorough` runs all.
"""

from __future__ import annotations

import os
import subprocess

import pytest

from .stacks import KERAS_2, LEGACY, ROOT, Stack

PROGRAMS = (
    "tape_tf_function",
    "fit_train_step",
    "fit_saves",
    "fit_generator_method",
    "fit_rate_set_by_backend",
    "minimize",
)
OTHERS = (KERAS_2.case(), LEGACY.case(pytest.mark.thorough))

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("stack", OTHERS)]


def run(stack: Stack, *arguments: object) -> subprocess.CompletedProcess[str]:
    """A module of that environment, run there."""
    clean = {key: value for key, value in os.environ.items() if key != "TF_USE_LEGACY_KERAS"}
    return subprocess.run(
        [stack.python, "-m", *map(str, arguments)],
        cwd=ROOT,
        env={**clean, **stack.environment},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )


@pytest.mark.long
def test_programs_hold(stack: Stack) -> None:
    """And a warm-up. In one process, since each by itself would import TensorFlow anew."""
    programs = [f"tests/test_programs.py::test_program[{name}]" for name in PROGRAMS]
    tests = [*programs, "tests/test_launch.py::test_warmup_epochs"]
    options = (
        "--quiet",
        "--override-ini=addopts=--import-mode=importlib",
        "-p",
        "no:cacheprovider",
    )
    done = run(stack, "pytest", *options, *tests)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(tests)} passed" in done.stdout


@pytest.mark.thorough
def test_doctor(stack: Stack) -> None:
    assert run(stack, "jupyter_hvd", "doctor").returncode == 0
