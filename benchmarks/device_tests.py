"""A pytest plugin for `device_run`. It replaces what tests of the tensor language take from `tests/conftest.py`, and appends a
line for each test to the file DEVICE_TESTS as soon as the test has run.
"""

from __future__ import annotations

import json
import os

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "untimed", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def kernels_kept() -> None:
    """Nothing is kept from one run to the next."""


def pytest_configure(config: pytest.Config) -> None:
    for name in ("slow", "long", "own_forks", "thorough"):
        config.addinivalue_line("markers", name)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Some tests of every file before the rest of any."""
    thorough = [item for item in items if item.get_closest_marker("thorough")]
    places: dict[str, int] = {}
    order = {}
    for item in items:
        places[str(item.path)] = places.get(str(item.path), 0) + 1
        order[item] = places[str(item.path)]
    items[:] = sorted((i for i in items if i not in thorough), key=order.__getitem__)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if "PYTEST_XDIST_WORKER" in os.environ:  # the process that began it writes
        return
    if report.when == "call" or report.outcome != "passed":
        why = str(report.longrepr).splitlines()[-1:] if report.failed else []
        with open(os.environ["DEVICE_TESTS"], "a") as file:  # noqa: PTH123
            row = {"test": report.nodeid, "outcome": report.outcome, "why": " ".join(why)[:300]}
            print(json.dumps(row), file=file)
