"""What passed is left out until something has changed that it depends on: what counts, and that nothing else does."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grimp
import pytest

from . import unchanged
from .unchanged import SECONDS, TESTS, Unchanged, affordable, dependencies, key


def depends(test: str, on: str) -> bool:
    return unchanged.ROOT / on in dependencies(TESTS / test)


@pytest.mark.parametrize(
    ("test", "on", "expected"),
    [
        ("convert/test_rules.py", "jupyter_hvd/convert/rules/learning_rate.py", True),
        ("convert/test_rules.py", "jupyter_hvd/analysis/flow.py", True),  # by what it imports
        ("convert/test_rules.py", "jupyter_hvd/tensor/ssa/simplify.py", False),
        ("convert/test_rules.py", "docs/rules.md", True),
        ("convert/test_expected.py", "tests/programs/apply_in_method.py", True),
        ("tensor/test_theorems.py", "jupyter_hvd/tensor/ssa/simplify.py", True),
        ("tensor/test_theorems.py", "tests/tensor/random_programs.py", True),
        ("tensor/test_theorems.py", "tests/tensor/conftest.py", True),
        ("tensor/test_theorems.py", "tests/tensor/test_front.py", False),
        ("tensor/test_theorems.py", "jupyter_hvd/convert/conversion.py", False),
        ("convert/test_cli.py", "jupyter_hvd/tensor/ssa/simplify.py", True),  # it runs commands
        ("exact/test_exact.py", "jupyter_hvd/convert/rules/learning_rate.py", True),
        (
            "exact/test_exact.py",
            "jupyter_hvd/tensor/ssa/simplify.py",
            False,
        ),  # it says nothing of it
        ("distribute/test_faults.py", "jupyter_hvd/notebook/cluster.py", True),
        ("distribute/test_faults.py", "jupyter_hvd/gradcost/report.py", False),
        ("test_platforms.py", "jupyter_hvd/tensor/ssa/simplify.py", True),
        ("test_documentation.py", "README.md", True),
        ("test_documentation.py", "jupyter_hvd/tensor/ssa/simplify.py", True),  # it runs blocks
        ("convert/test_layers.py", "jupyter_hvd/analysis/flow.py", True),  # it reads the folder
        ("convert/test_layers.py", "jupyter_hvd/convert/engine.py", False),
    ],
)
def test_what_a_test_depends_on(test: str, on: str, expected: bool) -> None:
    assert (unchanged.ROOT / on).exists()
    assert depends(test, on) is expected


def test_nothing_else_leads_to_the_tensor_language() -> None:
    """So a test that starts processes and does not speak of it depends on none of its modules."""
    found = grimp.build_graph(unchanged.PACKAGE)
    for package in unchanged.TENSOR:
        for module in (package, *found.find_descendants(package)):
            importers = found.find_modules_that_directly_import(module)
            assert not importers & unchanged.outside_tensor(), module


def test_any_of_these_changes_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    file = TESTS / "convert" / "test_flow.py"
    first, content = key(file), unchanged.content
    assert key(file) == first
    for changed in (file, unchanged.ROOT / "jupyter_hvd/analysis/flow.py", TESTS / "conftest.py"):
        monkeypatch.setattr(
            unchanged, "content", lambda path, one=changed: "new" if path == one else content(path)
        )
        assert key(file) != first
    monkeypatch.setattr(unchanged, "content", content)
    monkeypatch.setattr(unchanged, "installed", lambda: ("another version",))
    assert key(file) != first


def items(*names: str) -> list[Any]:
    return [SimpleNamespace(nodeid=f"tests/convert/test_flow.py::{name}") for name in names]


def run(
    kept: Path,
    given: list[Any],
    failing: str = "",
    status: int = 0,
    limit: float | None = None,
    skipping: str = "none",
) -> tuple[list[str], int]:
    """The tests that are run, each for a second, and the exit status."""
    plugin, left = Unchanged(kept, True, limit), [*given]
    hook = SimpleNamespace(pytest_deselected=lambda **_: None)
    plugin.pytest_collection_modifyitems(SimpleNamespace(hook=hook), left)  # type: ignore[arg-type]
    for item in left:
        for when in ("setup", "call", "teardown"):
            failed = when == "call" and item.nodeid.endswith(f"::{failing}")
            spent = [(SECONDS, 1.0)] if when == "teardown" else []
            skipped = when == "setup" and item.nodeid.endswith(f"::{skipping}")
            report: Any = SimpleNamespace(
                nodeid=item.nodeid, passed=not failed and not skipped, user_properties=spent
            )
            plugin.pytest_runtest_logreport(report)
    session: Any = SimpleNamespace(exitstatus=status)
    plugin.pytest_sessionfinish(session)
    return [item.nodeid.partition("::")[2] for item in left], session.exitstatus


def test_what_passed_is_left_out_and_what_failed_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, given = tmp_path / "folder" / "tests.json", items("a", "b", "c")
    assert run(kept, given, failing="b", status=1) == (["a", "b", "c"], 1)
    assert run(kept, items("a", "b", "c", "new"), failing="c") == (["b", "new"], 0)
    assert run(kept, given, status=5) == ([], 0)  # nothing is left to run, which is no fault
    monkeypatch.setattr(unchanged, "installed", lambda: ("another version",))
    assert run(kept, given, failing="a", status=1) == (["a", "b", "c"], 1)
    assert run(kept, given) == (["a"], 0)


def test_what_was_skipped_is_not_left_out(tmp_path: Path) -> None:
    kept = tmp_path / "tests.json"
    run(
        kept, items("a", "b"), skipping="b"
    )  # a program is missing, which may be installed next time
    assert run(kept, items("a", "b"))[0] == ["b"]
    assert run(kept, items("a", "b"))[0] == []


def test_no_tests_at_all_is_a_fault(tmp_path: Path) -> None:
    assert run(tmp_path / "tests.json", [], status=5) == ([], 5)


def test_a_selection_takes_of_each_file_the_same_share_the_cheapest_first() -> None:
    seconds = {"a::one": 1.0, "a::two": 2.0, "a::three": 3.0, "b::one": 8.0, "c::one": 1.0}
    assert affordable(seconds, 15.0) == set(seconds)
    assert affordable(seconds, 7.5) == {"a::one", "a::two", "b::one", "c::one"}
    assert affordable(seconds, 0.1) == {"a::one", "b::one", "c::one"}
    assert affordable({}, 1.0) == set()


def test_what_a_selection_leaves_out_runs_next_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "tests.json"
    assert run(kept, items("a", "b", "c", "d"), failing="d", limit=2.0)[0] == ["a", "b", "c", "d"]
    monkeypatch.setattr(unchanged, "installed", lambda: ("another version",))
    given = items("a", "b", "c", "d", "new")  # one failed, one is new: they run whatever they take
    assert run(kept, given, limit=2.0)[0] == ["a", "b", "d", "new"]
    assert run(kept, given, limit=2.0)[0] == ["c"]
    assert run(kept, given, limit=2.0)[0] == []


def test_a_file_is_imported_unless_all_its_tests_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, file = tmp_path / "tests.json", TESTS / "convert" / "test_flow.py"

    def ignored() -> bool | None:
        return Unchanged(kept, writes=True).pytest_ignore_collect(file)

    assert ignored() is None
    run(kept, items("a", "b"), failing="b", status=1)
    assert ignored() is None
    run(kept, items("a", "b"))
    assert ignored() is True
    narrower = Unchanged(kept, writes=True)
    option = SimpleNamespace(markexpr="", keyword="a", brief=False)
    narrower.pytest_configure(SimpleNamespace(option=option, args=[]))  # type: ignore[arg-type]
    assert narrower.pytest_ignore_collect(file) is None
    monkeypatch.setattr(unchanged, "installed", lambda: ("another version",))
    assert ignored() is None
