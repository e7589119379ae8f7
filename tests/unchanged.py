"""`pytest --unless-passed=FILE`: tests that passed are left out as long as all that they depend on is as it was.

A file all of whose tests passed is not even imported. `--cpu-limit=SECONDS` runs of the others a selection from every file, by
the CPU time that each took when it last passed. What it leaves out is counted in the last line and runs next time. New tests,
and those that failed, always run.

A test depends on its own file and those of tests that this imports; on the modules of `jupyter_hvd` that they
import, and what these import in turn, lazily too (`grimp`); on the files that lie beside those; on the folders that
its strings name; on `pyproject.toml` and on what is installed. What starts processes, or names the package in a
string, or executes text, depends on the whole of it; but on the tensor language and its panel only where the test's text
speaks of them: the rest of the package reaches them by the few modules of `TO_TENSOR` alone. `make check` and `make test` are
run so; CI runs everything.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import resource
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

import grimp
import pytest

from .needs import report_left_out

ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"
PACKAGE = "jupyter_hvd"
#: What is made of other things, and folders in which everything lies.
LEFT_OUT = {PACKAGE, "tests", "node_modules", "build", "dist", "lib"}
#: What `jupyter_hvd` itself gives comes from there (its `__getattr__`).
GIVEN = f"{PACKAGE}.convert"
#: The modules that import the tensor language and its panel from outside, by what the text of a test that runs them says.
TO_TENSOR = {
    f"{PACKAGE}.magics.tensor": r"\btensor\b|\bgrad\b|jax|gradcost",
    f"{PACKAGE}.cli.certify": r"\bcertify\b",
    f"{PACKAGE}.cli.device_profile": r"\bdevice.profile\b",
}
TENSOR = (f"{PACKAGE}.tensor", f"{PACKAGE}.gradcost")
#: They import those: the command line, and `%load_ext jupyter_hvd`.
LEADING = (f"{PACKAGE}.cli", f"{PACKAGE}.magics")
#: Modules, fixtures and functions that start processes, or run commands or code of any kind.
STARTS = {"subprocess", "multiprocessing", "nbclient", "jupyter_client"}
STARTS |= {"hvd", "hvd_here", "hvd_process", "jp_fetch", "jp_serverapp"}
STARTS |= {"run_path", "run_module", "import_module", "run_cell"}


def key(file: Path) -> str:
    """A hash of all that the tests of a file depend on."""
    always = (ROOT / "pyproject.toml", ROOT / "yarn.lock", TESTS / "conftest.py")
    paths = {*always, *ROOT.glob("requirements/*.txt"), *dependencies(file)}
    parts = [f"{path.relative_to(ROOT)} {content(path)}" for path in sorted(paths)]
    return hashlib.sha256("\n".join([*parts, *installed()]).encode()).hexdigest()


@cache
def content(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@cache
def installed() -> tuple[str, ...]:
    found = {f"{d.metadata['Name']} {d.version}" for d in distributions()}
    return (sys.version, *sorted(found))


def dependencies(file: Path) -> frozenset[Path]:
    """The files that the tests of a file depend on, itself among them."""
    found: set[Path] = set()
    modules: set[str] = set()
    conftests = (folder / "conftest.py" for folder in file.parents if folder.is_relative_to(TESTS))
    left = [file, *(x for x in conftests if x.exists() and x.parent != TESTS)]
    while left:
        path = left.pop()
        if path in found:
            continue
        found.add(path)
        read = Read.of(path)
        modules |= read.modules
        found |= read.data
        left += read.helpers
    return frozenset(found | {x for module in upstream(frozenset(modules)) for x in files(module)})


class Read:
    """What one file of tests names: modules of the package, other files of tests, and files that are read."""

    @staticmethod
    @cache
    def of(path: Path) -> Read:
        return Read(path)

    def __init__(self, path: Path) -> None:
        text = path.read_text()
        nodes = [*ast.walk(ast.parse(text))]
        names, texts = {*imported(nodes)}, {*strings(nodes)}
        own = {x for x in names if x.partition(".")[0] == PACKAGE}
        self.modules = {x for x in own if x in graph().modules and x != PACKAGE}
        for module in {*self.modules}:  # a test may read the files of a package
            self.modules |= graph().find_descendants(module) - TO_TENSOR.keys()
        if any(x.rpartition(".")[0] == PACKAGE and x not in graph().modules for x in own):
            self.modules.add(GIVEN)
        words = {x.partition(".")[0] for x in names - own} | {*used(nodes)} | texts
        whole = any(x.partition("/")[0] == PACKAGE for x in texts) or is_whole(nodes)
        if whole or words & STARTS:
            self.modules |= outside_tensor()
        if any(x in upstream(frozenset(self.modules)) for x in LEADING):
            self.modules |= spoken_of(text)
        self.data = {x for text in texts for x in named(path.parent, text)}
        if "exec" in words:
            written = "\n".join([*texts, *(x.read_text() for x in self.data if x.suffix == ".md")])
            self.modules |= mentioned(written)
        # Every test depends on that of all tests; what its fixtures start, the tests that use them say.
        helpers = (x for name in names - own for x in helper(path, name))
        self.helpers = [x for x in helpers if x != TESTS / "conftest.py"]


Nodes = Sequence[ast.AST]


def spoken_of(text: str) -> set[str]:
    """The modules of `TO_TENSOR` that a text speaks of."""
    return {module for module, words in TO_TENSOR.items() if re.search(words, text)}


@cache
def outside_tensor() -> frozenset[str]:
    """All modules but those of the tensor language and those that lead to it."""
    within = {x for package in TENSOR for x in graph().find_descendants(package)}
    return frozenset(graph().modules - within - {*TENSOR, *TO_TENSOR})


def mentioned(text: str) -> frozenset[str]:
    """The modules that code in a text imports; all of them, where it says no more than the package's name."""
    found = re.findall(rf"\b(?:from|import|load_ext) ({PACKAGE}[\w.]*)", text)
    return frozenset(graph().modules if PACKAGE in found else graph().modules & {*found})


def is_whole(nodes: Nodes) -> bool:
    """Whether the package is imported by its name alone, and so may be asked where it lies."""
    imports = (x for x in nodes if isinstance(x, ast.Import))
    return any(alias.name == PACKAGE for x in imports for alias in x.names)


def imported(nodes: Nodes) -> Iterator[str]:
    """Dotted names, of `from a import b` both `a` and `a.b`; relative ones without dots."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            before = node.module or ""
            yield before
            yield from (f"{before}.{alias.name}".lstrip(".") for alias in node.names)


def used(nodes: Nodes) -> Iterator[str]:
    """Names, of attributes too, and of parameters, fixtures among them; what `usefixtures` has are strings."""
    for node in nodes:
        match node:
            case ast.Name(name) | ast.Attribute(attr=name) | ast.arg(name):
                yield name


def strings(nodes: Nodes) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def helper(path: Path, name: str) -> list[Path]:
    """Files of tests by the name of a module."""
    stem = name.partition(".")[0]
    others = set() if stem == "conftest" else {TESTS / "tensor", TESTS / "generated"}
    places = {path.parent, TESTS, *others}
    return [x for place in places if (x := place / f"{stem}.py").exists()]


@cache
def named(folder: Path, text: str) -> frozenset[Path]:
    """The files that a string names: in the project's folder, in the tests', or in that of the test."""
    first = text.partition("/")[0]
    if not first or first[0] == "." or len(text) > 200 or "\n" in text or first in LEFT_OUT:
        return frozenset()
    found: set[Path] = set()
    for place in (ROOT, TESTS, folder):
        named = place / first
        if named.is_file():
            found.add(named)
        elif named.is_dir():
            found |= {x for x in named.rglob("*") if x.is_file() and "__pycache__" not in x.parts}
    return frozenset(found)


@cache
def graph() -> Any:
    """What imports what, without the imports of `TO_TENSOR`: a test depends on these where its text speaks of them."""
    found = grimp.build_graph(PACKAGE)
    for module in TO_TENSOR:
        for importer in found.find_modules_that_directly_import(module):
            found.remove_import(importer=importer, imported=module)
    return found


@cache
def upstream(modules: frozenset[str]) -> frozenset[str]:
    """Modules and all that they import; and the packages around them, which are imported first."""
    found = set(modules).union(*(graph().find_upstream_modules(x) for x in modules - {PACKAGE}))
    return frozenset(found | {parent for x in found for parent in around(x)})


def around(module: str) -> Iterator[str]:
    while module := module.rpartition(".")[0]:
        yield module


@cache
def files(module: str) -> tuple[Path, ...]:
    """A module's file; of a package also what is no Python in its folder."""
    path = ROOT.joinpath(*module.split("."))
    if path.is_dir():
        others = (x for x in path.iterdir() if x.is_file() and x.suffix not in (".py", ".pyc"))
        return path / "__init__.py", *others
    return (path.with_suffix(".py"),)


def affordable(seconds: Mapping[str, float], limit: float) -> frozenset[str]:
    """Tests whose CPU time is about `limit` seconds in all: of each file the cheapest, up to the same share of its time.

    Args:
        seconds: by the id of a test. Every file has one at least in the selection.
    """
    share = limit / max(limit, sum(seconds.values()))
    files: dict[str, list[str]] = {}
    for test in sorted(seconds, key=lambda test: (seconds[test], test)):
        files.setdefault(test.partition("::")[0], []).append(test)
    chosen: set[str] = set()
    for tests in files.values():
        left = share * sum(seconds[test] for test in tests) * (1 + 1e-9)
        for place, test in enumerate(tests):
            left -= seconds[test]
            if place and left < 0:
                break
            chosen.add(test)
    return frozenset(chosen)


def cpu_seconds() -> float:
    """Of this process and of those that it has waited for."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


# pytest

#: A property of reports: the CPU seconds of a test and its fixtures.
SECONDS = "cpu-seconds"
BEGAN = pytest.StashKey[float]()


@dataclass(frozen=True)
class Passed:
    """A test that passed: the key of its file, and its CPU time."""

    key: str
    seconds: float


class Unchanged:
    """Leaves out the tests that passed with the same key, and notes those that pass.

    Args:
        limit: CPU seconds for all others together; None for any number.
    """

    def __init__(self, kept: Path, writes: bool, limit: float | None = None) -> None:
        self.kept, self.writes, self.limit = kept, writes, limit
        self.keys: dict[str, str] = {}
        self.before, self.complete = read_ledger(kept)
        self.selection = ""
        #: The tests of each file that was imported.
        self.collected: dict[str, list[str]] = {}
        self.outcomes: dict[str, bool] = {}
        self.seconds: dict[str, float] = {}
        #: How many tests that have changed are left for the next run, and their CPU seconds.
        self.postponed = (0, 0.0)
        #: How many passed and have not changed since.
        self.unchanged = 0

    def key(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if file not in self.keys:
            self.keys[file] = key(ROOT / file)
        return self.keys[file]

    def pytest_configure(self, config: pytest.Config) -> None:
        chosen = [x for x in config.args if "::" in x]
        how = config.option
        self.selection = repr((how.markexpr, how.keyword, how.brief, *chosen))

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        if not collection_path.is_relative_to(TESTS) or collection_path.suffix != ".py":
            return None
        file = str(collection_path.relative_to(ROOT))
        if self.complete.get(file) != self.file_key(file):
            return None
        noted = sum(x.partition("::")[0] == file for x in self.before)
        self.unchanged += noted
        return True

    def file_key(self, file: str) -> str:
        """The key of a file's tests as far as the command line selects them."""
        return f"{self.key(file)} {self.selection}"

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(
        self, config: pytest.Config, items: list[pytest.Item]
    ) -> None:
        for item in items:
            self.collected.setdefault(item.nodeid.partition("::")[0], []).append(item.nodeid)
        unchanged = {
            x.nodeid
            for x in items
            if x.nodeid in self.before and self.before[x.nodeid].key == self.key(x.nodeid)
        }
        known = {
            x.nodeid: self.before[x.nodeid].seconds
            for x in items
            if x.nodeid in self.before and x.nodeid not in unchanged
        }
        chosen = known if self.limit is None else affordable(known, self.limit)
        postponed = known.keys() - chosen
        self.postponed = (len(postponed), sum(known[x] for x in postponed))
        self.unchanged += len(unchanged)
        left = [x for x in items if x.nodeid in unchanged or x.nodeid in postponed]
        if left:
            config.hook.pytest_deselected(items=left)
            items[:] = without(items, left)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        item.stash[BEGAN] = cpu_seconds()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        if call.when == "teardown" and BEGAN in item.stash:
            item.user_properties.append((SECONDS, cpu_seconds() - item.stash[BEGAN]))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        ran = self.outcomes.get(report.nodeid, True)
        self.outcomes[report.nodeid] = ran and report.passed
        self.key(report.nodeid)  # as it is now
        for name, value in report.user_properties:
            if name == SECONDS:
                self.seconds[report.nodeid] = value

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if not self.writes:
            session.config.workeroutput.update(
                postponed=self.postponed, unchanged=self.unchanged, collected=self.collected
            )
            return
        passed = {
            x: Passed(self.key(x), round(self.seconds.get(x, 0.0), 3))
            for x, good in self.outcomes.items()
            if good
        }
        kept = {x: p for x, p in self.before.items() if self.outcomes.get(x, True)}
        tests = {**kept, **passed}
        for file, collected in self.collected.items():
            self.complete.pop(file, None)
            if all(x in tests and tests[x].key == self.key(x) for x in collected):
                self.complete[file] = self.file_key(file)
        write_ledger(self.kept, tests, self.complete)
        if session.exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self.before:
            session.exitstatus = pytest.ExitCode.OK

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Workers collect and select alike, so any of them may say what it left out."""
        output = getattr(node, "workeroutput", {})
        self.postponed = output.get("postponed", self.postponed)
        self.unchanged = output.get("unchanged", self.unchanged)
        self.collected = output.get("collected", self.collected)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self.unchanged:
            sentence = "tests left out: they passed, and nothing they depend on has changed. LEDGER= runs all."
            report_left_out(terminalreporter, self.unchanged, sentence)
        count, seconds = self.postponed
        if count:
            terminalreporter.write_line(
                f"{count} tests ({seconds:.0f} CPU seconds) that the changes may break are left for the next run: "
                f"this one was to take at most {self.limit:.0f}. `make check CHECK_SECONDS=` runs all."
            )


def read_ledger(file: Path) -> tuple[dict[str, Passed], dict[str, str]]:
    """The tests that a file notes, by their ids, and the keys of files all of whose tests passed.

    Both are empty where there is no such file, or it is of another version.
    """
    found = json.loads(file.read_text()) if file.exists() else {}
    if found.keys() != {"tests", "files"}:
        return {}, {}
    return {x: Passed(*entry) for x, entry in found["tests"].items()}, found["files"]


def write_ledger(file: Path, tests: Mapping[str, Passed], files: Mapping[str, str]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    beside = file.with_suffix(".new")
    noted = {"tests": {x: [p.key, p.seconds] for x, p in tests.items()}, "files": files}
    beside.write_text(json.dumps(noted, indent=0))
    beside.replace(file)


def without(items: Iterable[pytest.Item], left: Sequence[pytest.Item]) -> list[pytest.Item]:
    gone = {id(x) for x in left}
    return [x for x in items if id(x) not in gone]
