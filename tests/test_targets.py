"""Newer TensorFlow, in an environment of its own (`.venv-tf218`, made by `make env-tf218`).

With legacy Keras converted programs hold there too; under Keras 3 they stop at once.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PYTHON = ROOT / ".venv-tf218" / "bin" / "python"
PROGRAMS = ROOT / "tests" / "programs"
LEGACY = {"TF_USE_LEGACY_KERAS": "1"}

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not PYTHON.exists(), reason="no .venv-tf218: `make env-tf218` makes it"),
]


def hvd(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if key != "TF_USE_LEGACY_KERAS"}
    return subprocess.run(
        [PYTHON, "-m", "jupyter_hvd", *map(str, arguments)],
        env={**clean, **environment},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize(
    "name", ["tape_tf_function", "gan", "fit_dataset_validation", "fit_reduce_on_plateau"]
)
def test_legacy_keras(name: str) -> None:
    done = hvd("verify", PROGRAMS / f"{name}.py", "--steps", 8, **LEGACY)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "The conversion holds." in done.stdout


def test_warmup() -> None:
    done = hvd("run", PROGRAMS / "fit_sgd_call.py", "-n", 2, "--warmup-epochs", 1, **LEGACY)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("name", ["tape_tf_function", "fit_both_imports"])
def test_keras_3_stops_at_once(name: str) -> None:
    done = hvd("run", PROGRAMS / f"{name}.py", "-n", 2, "--target", "keras2")
    assert done.returncode != 0
    assert "Horovod does not average gradients in Keras 3" in done.stderr
    assert "TF_USE_LEGACY_KERAS=1" in done.stderr


def test_standalone_keras_3_stops_at_once(tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(
        (PROGRAMS / "fit_keras_imports_only.py").read_text().replace("tensorflow.keras", "keras")
    )
    done = hvd("run", program, "-n", 2, **LEGACY)
    assert done.returncode != 0
    assert "Horovod does not average gradients in Keras 3" in done.stderr


def test_doctor_says_so() -> None:
    assert "TF_USE_LEGACY_KERAS=1" in hvd("doctor").stdout
    assert hvd("doctor", **LEGACY).returncode == 0
