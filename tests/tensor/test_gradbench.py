"""The tool for GradBench answers by its protocol. That its answers are right, GradBench's validators say: `make gradbench`."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

TOOL = Path(__file__).parents[2] / "benchmarks" / "gradbench" / "tool.py"
RUNS = {"min_runs": 2, "min_seconds": 0}


def _answers(*messages):
    """What the tool answers, each message a line."""
    sent = "".join(json.dumps({"id": k} | m) + "\n" for k, m in enumerate(messages))
    done = subprocess.run(
        [sys.executable, str(TOOL)], input=sent, capture_output=True, text=True, check=True
    )
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [f["id"] for f in found] == [*range(len(messages))]
    return found


def _evaluate(module, function, given):
    return {"kind": "evaluate", "module": module, "function": function, "input": given}


def test_protocol():
    A = np.random.default_rng(0).random((3, 3))
    started, known, unknown, doubled, wrong, slope, analysed = _answers(
        {"kind": "start", "eval": "hello"},
        {"kind": "define", "module": "hello"},
        {"kind": "define", "module": "nothing"},
        _evaluate("hello", "double", 3.0),
        _evaluate("lse", "gradient", {"x": "none"} | RUNS),
        _evaluate("det", "gradient", {"A": A.ravel().tolist(), "ell": 3} | RUNS),
        {"kind": "analysis", "of": 3, "valid": True},
    )
    assert started["tool"] == "jupyter_hvd"
    assert known["success"]
    assert not unknown["success"]
    assert "nothing" in unknown["error"]
    assert doubled["output"] == 6
    assert not wrong["success"]
    assert {t["name"] for t in slope["timings"]} == {"evaluate"}
    assert len(slope["timings"]) >= 2
    np.testing.assert_allclose(
        np.reshape(slope["output"], (3, 3)), np.linalg.det(A) * np.linalg.inv(A).T, rtol=1e-10
    )
    assert analysed == {"id": 6}


@pytest.mark.thorough
def test_nested_searches():
    """GradBench's own constants."""
    found = _answers(
        *(_evaluate("particle", f, {"w": 0.0} | RUNS) for f in ("rr", "rf", "fr", "ff")),
        *(_evaluate("saddle", f, {"start": [1.0, 1.0]} | RUNS) for f in ("rr", "rf", "fr", "ff")),
    )
    for answer in found[:4]:
        assert answer["output"] == pytest.approx(0.2071918746486116)
    for answer in found[4:]:
        assert answer["output"] == pytest.approx([8.246324826140356e-06] * 4)
