"""Which tests a run takes, beyond markers: `--brief` and `--tenth=N`.

`--brief`, for `make test`: of a slow test with parameters the first, and none that takes long. The parameters of a slow test
prove the same of other inputs; CI runs them all (`make test-all`). The last line says how many are left out.
`--tenth=N`, for Pythons on which not all of them run in CI: every tenth test of each file, from the Nth on.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from .needs import report_left_out

TENTH = 10
#: What a tenth leaves out: longer than its share, or about other environments than this one.
LEFT_OUT = ("long", "thorough")
SHARED = "tests/distribute/"  # one test of each file would start as many ranks as all
LEFT_TO_CI = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--brief", action="store_true", help="one case of each slow test, and none that takes long"
    )
    parser.addoption(
        "--tenth", type=int, metavar="N", help="every tenth test of each file, from the Nth on"
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    first = config.getoption("tenth")
    kept = {item.nodeid for item in items}
    if first is not None:
        short = [x.nodeid for x in items if not any(map(x.get_closest_marker, LEFT_OUT))]
        kept &= set(select_tenth([x for x in short if not x.startswith(SHARED)], first))
    if config.getoption("brief"):
        asked = [x for x in items if not x.get_closest_marker("thorough")]
        long = {x.nodeid for x in asked if x.get_closest_marker("long")}
        slow = [x.nodeid for x in asked if x.get_closest_marker("slow") and x.nodeid not in long]
        left = long | find_later_cases(slow)
        kept -= left
        config.stash[LEFT_TO_CI] = len(left)
    if len(kept) < len(items):
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in kept])
        items[:] = [item for item in items if item.nodeid in kept]


def select_tenth(tests: Sequence[str], first: int) -> list[str]:
    """Every tenth test of each file, from a place on; of a small file one."""
    files: dict[str, list[str]] = {}
    for test in tests:
        files.setdefault(test.partition("::")[0], []).append(test)
    return [t for held in files.values() for t in held[min(first, len(held) - 1) :: TENTH]]


def find_later_cases(tests: Sequence[str]) -> set[str]:
    """All but the first of the tests that differ in their parameters alone."""
    first: dict[str, str] = {}
    for test in tests:
        first.setdefault(test.partition("[")[0], test)
    return set(tests) - set(first.values())


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: pytest.Item) -> None:
    """Workers select alike, so any of them may say what it left out."""
    left = getattr(node, "workeroutput", {}).get("left_to_ci")
    if left is not None:
        node.config.stash[LEFT_TO_CI] = left


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput") and LEFT_TO_CI in session.config.stash:
        session.config.workeroutput["left_to_ci"] = session.config.stash[LEFT_TO_CI]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    left = terminalreporter.config.stash.get(LEFT_TO_CI, 0)
    if left:
        sentence = "tests are left to `make test-all`: long ones, and further cases of slow ones"
        report_left_out(terminalreporter, left, sentence)
