from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
ROOT = Path(__file__).parents[1]
Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def hvd(tmp_path: Path) -> Command:
    """Runs `jupyter hvd …` as a user would, in an empty folder."""

    def run(*arguments: object, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "jupyter_hvd", *map(str, arguments)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    return run


def pytest_terminal_summary(terminalreporter) -> None:
    """Print the table of the programs: what holds, what is refused and why."""
    reports = [r for outcome in ("passed", "failed") for r in terminalreporter.getreports(outcome)]
    rows = [value for r in reports for key, value in r.user_properties if key == "hvd-row"]
    if rows:
        terminalreporter.section("conversions, verified on two ranks")
        for row in sorted(rows):
            terminalreporter.write_line(row)
