"""Tests that need a program, another environment or root say so (`@pytest.mark.needs("sshd")`), and are skipped without it.

A line at the end says how many were skipped, and what to install. Tests that skip themselves are counted in the same way.
`make test` prints these lines once more, for all its parts.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections import Counter
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "needs.py"
_spec = importlib.util.spec_from_file_location("needs", SCRIPT)
assert _spec is not None
assert _spec.loader is not None
needs = importlib.util.module_from_spec(_spec)
sys.modules["scripts_needs"] = needs
_spec.loader.exec_module(needs)

#: Fixtures that need something, so that no test needs to say it again.
BY_FIXTURE = {"two_hosts": ("sshd", "root"), "slurm": ("slurm", "root")}
#: Where this run notes what it skips. The runs of pytest that tests start have no such place.
PLACE = pytest.StashKey[str]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[PLACE] = os.environ.pop(needs.NOTES_VARIABLE, "")
    config.addinivalue_line(
        "markers", "needs(*names): what it needs of the system, as in scripts/needs.py"
    )


def needs_of(item: pytest.Item) -> list[str]:
    names = [name for mark in item.iter_markers("needs") for name in mark.args]
    fixtures = getattr(item, "fixturenames", ())
    return names + [name for fixture in fixtures for name in BY_FIXTURE.get(fixture, ())]


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    reasons: dict[str, str | None] = {}
    for item in items:
        for name in needs_of(item):
            if name not in reasons:
                reasons[name] = needs.why_not(name)
            if reason := reasons[name]:
                item.add_marker(pytest.mark.skip(reason=reason))
                break


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = terminalreporter.getreports("skipped")
    for sentence, count in Counter(map(sentence_of, reports)).items():
        report_left_out(terminalreporter, count, sentence)


def sentence_of(report: pytest.TestReport) -> str:
    """The closing line of a skipped test, without the count."""
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else "no reason given"
    reason = " ".join(reason.removeprefix("Skipped: ").split())
    return reason if needs.SKIPPED in reason else f"{needs.SKIPPED.strip()} {reason}"


def report_left_out(reporter: pytest.TerminalReporter, count: int, sentence: str) -> None:
    """Print a closing line, and note it for the end of `make test`."""
    reporter.write_line(f"{count} {sentence}")
    if place := reporter.config.stash.get(PLACE, ""):
        needs.note(count, sentence, place)
