"""The benchmark for a device that one has for a few minutes works: each part has results, and none is an error of ours."""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
BENCHMARKS = ROOT / "benchmarks"
#: A program of each part.
PROGRAMS = {"peers": "LSTM step", "table": "softmax", "growth": "dot(diag col, diag row)"}


def test_its_tests_are_there(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    names = importlib.import_module("device_run").TESTS
    assert not [n for n in names if not (ROOT / "tests" / "tensor" / f"{n}.py").exists()]


@pytest.mark.slow
def test_benchmarks_import():
    names = [file.stem for file in sorted(BENCHMARKS.glob("*.py"))]
    path = os.pathsep.join([str(ROOT), str(BENCHMARKS), str(ROOT / "tests" / "tensor")])
    subprocess.run(
        [sys.executable, "-c", "".join(f"import {name}\n" for name in names)],
        check=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": path},
        stdout=subprocess.DEVNULL,
    )


@pytest.mark.slow
@pytest.mark.long
def test_every_part_has_results(tmp_path):
    command = [sys.executable, str(BENCHMARKS / "device_run.py"), "--seconds", "90"]
    command += ["--out", str(tmp_path), "--testing", "0.3", "--only", *PROGRAMS.values()]
    subprocess.run(command, check=True, capture_output=True, timeout=300)
    rows = [json.loads(line) for line in (tmp_path / "results.jsonl").read_text().splitlines()]
    parts = {row["part"]: row for row in rows}
    assert parts["profile"]["launch"] > 0
    assert parts["tests"]["passed"] > 0
    assert not parts["tests"]["failed"]
    for part, name in PROGRAMS.items():
        measured = [row for row in rows if (row["part"], name in row["name"]) == (part, True)]
        assert measured
        first = measured[0]
        assert "why" not in first, first["why"]
        assert "JAX" in first["ms"]
        assert first["difference"] < 1e-3
        assert any(kernel.get("predicted", 0) > 0 for kernel in first["kernels"].values())
