from __future__ import annotations

import atexit
import contextlib
import gc
import os
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from jupyter_hvd.launch.base import rank_environment
from jupyter_hvd.ranks.forks import FORKS_VARIABLE, WITHOUT_HOROVOD, start_forkservers

from . import needs, selection
from .mlir_contexts import share_contexts

# How long an example takes says more of the machine than of the code.
settings.register_profile(
    "untimed", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("untimed")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
# Every rank's Horovod looks for messages each millisecond: many ranks on few cores do nothing else.
os.environ.setdefault("HOROVOD_CYCLE_TIME", "10")
#: The logs of the jobs that tests run are not the user's.
LOGS = tempfile.TemporaryDirectory(prefix="hvd-test-logs-")
os.environ["JUPYTER_HVD_JOBS"] = LOGS.name
ROOT = Path(__file__).parents[1]
Command = Callable[..., subprocess.CompletedProcess[str]]
#: Where the servers find `forked_script`.
FORKED = ROOT / "tests" / "forked"
#: XLA compiles a kernel once for all workers, the processes that they start, and later runs. JAX names entries
#: by the program and the versions. The processes inherit these variables.
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(CACHE / "jupyter-hvd" / "xla"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")


@pytest.fixture(scope="session")
def kernels_kept() -> None:
    """Tests that compile small kernels share them, also where JAX was imported before these variables were set."""
    import jax

    jax.config.update("jax_compilation_cache_dir", os.environ["JAX_COMPILATION_CACHE_DIR"])
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    share_contexts()
    # Whole tracebacks: to leave out JAX's own lines takes milliseconds an error, and thousands are compared.
    jax.config.update("jax_traceback_filtering", "off")


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    pluginmanager.register(needs)
    pluginmanager.register(selection)
    parser.addoption(
        "--unless-passed", metavar="FILE", help="leave out what passed and has not changed"
    )
    parser.addoption(
        "--cpu-limit",
        type=float,
        metavar="SECONDS",
        help="with --unless-passed: of what has changed, run a selection that takes so long",
    )


def pytest_configure(config: pytest.Config) -> None:
    if kept := config.getoption("--unless-passed"):
        from .unchanged import Unchanged

        writes, limit = not hasattr(config, "workerinput"), config.getoption("--cpu-limit")
        config.pluginmanager.register(Unchanged(Path(kept), writes, limit))


def pytest_collection_finish() -> None:
    """What is loaded by now stays: to look through it again, each few hundred objects, is a tenth of the tests' time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def pytest_sessionfinish() -> None:
    """pytest collects five times at its end, for what tells of its own end too late."""
    gc.freeze()


@cache
def shared_forks() -> Mapping[str, str]:
    """One pair of servers for all ranks that tests of this process begin: each start by itself would import twice."""
    from jupyter_hvd.launch.reaper import private_folder
    from jupyter_hvd.notebook import rank_processes
    from jupyter_hvd.verify.exact import verification

    kept = contextlib.ExitStack()
    atexit.register(kept.close)
    folder = kept.enter_context(private_folder())
    modules = (*verification.PRELOADED, *rank_processes.PRELOADED)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(FORKED), prepend=os.pathsep)
        servers = start_forkservers(folder.path, folder.job, modules, without_horovod=True)
        return kept.enter_context(servers)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Workers share these servers, too: they are told of them, unless what is asked for starts no rank."""
    if "not slow" not in node.config.getoption("markexpr"):
        node.workerinput["forks"] = dict(shared_forks())


#: Fixtures of ranks on other hosts, which could reach these servers only here, where the hosts are namespaces of one machine.
ELSEWHERE = {"two_hosts", "slurm"}


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Function) -> None:
    """Tests that start ranks find these servers, unless it is servers that they are about."""
    os.environ.pop(FORKS_VARIABLE, None)
    own = item.get_closest_marker("own_forks") or ELSEWHERE & set(item.fixturenames)
    if item.get_closest_marker("slow") and not own:
        given = getattr(item.config, "workerinput", {}).get("forks")
        os.environ.update(given or shared_forks())


#: Commands that load neither TensorFlow nor JAX themselves; the processes that they start are those of a user's command.
LIGHT = ("convert", "rule", "job", "run", "verify")


@pytest.fixture
def hvd(hvd_here: Command, hvd_process: Command) -> Command:
    """Runs `jupyter hvd …` in an empty folder; what is light in this process, which has imported it already."""

    def run(*arguments: object, timeout: float = 300) -> subprocess.CompletedProcess[str]:
        if arguments and arguments[0] in LIGHT:
            return hvd_here(*arguments)
        return hvd_process(*arguments, timeout=timeout)

    return run


@pytest.fixture
def hvd_here(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Command:
    """Runs `jupyter hvd …` in an empty folder, in this process."""
    from jupyter_hvd import cli

    def run(*arguments: object) -> subprocess.CompletedProcess[str]:
        words = [str(argument) for argument in arguments]
        capfd.readouterr()
        with contextlib.chdir(tmp_path):
            try:
                code = cli.main(words)
            except SystemExit as ended:
                code = int(ended.code or 0)
        return subprocess.CompletedProcess(words, code, *capfd.readouterr())

    return run


@pytest.fixture
def hvd_process(tmp_path: Path) -> Command:
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


@pytest.fixture
def run_forked_script() -> Command:
    """Runs a script of a slow test, by its path, in a fork that has imported TensorFlow and not Horovod.

    To start Python and import TensorFlow takes five CPU seconds, a fork a hundredth.
    """

    def run(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
        assert FORKS_VARIABLE in os.environ, "mark the test `slow`"
        command = [sys.executable, "-P", "-m", "jupyter_hvd.ranks.forks", WITHOUT_HOROVOD]
        given = {"env": os.environ, "capture_output": True, "text": True, "check": False} | options
        given["env"] = rank_environment(uuid.uuid4().hex, given["env"])
        return subprocess.run([*command, "forked_script", *map(str, words)], **given)

    return run


# One pool of workers (`pytest -n 3 --dist=loadgroup`)

#: Files, or folders of files, whose tests share what is expensive to make.
SHARED_BY_FILE = ("tests/distribute/", "tests/gradcost/test_tour.py", "tests/test_forks.py")
#: Files of which the tests of one parameter share it.
SHARED_BY_PARAMETER = ("tests/test_examples.py",)


def work_unit(nodeid: str) -> str:
    """The tests with the same are run by the same worker, one after the other."""
    file, _, test = nodeid.partition("::")
    if file.startswith(SHARED_BY_FILE):
        return file
    if file.startswith(SHARED_BY_PARAMETER) and "[" in test:
        return f"{file}[{test.partition('[')[2]}"
    return nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadScopeScheduling

    class Pool(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            return work_unit(nodeid)

    return Pool(config, log)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """In a pool the longest tests are begun first: then none is left over at the end."""
    if getattr(config.option, "loadgroup", False):
        items.sort(key=begins_late)


def begins_late(item: pytest.Item) -> tuple[bool, bool, bool]:
    """What tests are sorted by. Those of a shared file stay in its order: some end the ranks that others need."""
    if item.nodeid.startswith(SHARED_BY_FILE):
        return False, False, False
    is_long, is_slow = (bool(item.get_closest_marker(name)) for name in ("long", "slow"))
    return True, not is_long, not is_slow


def pytest_terminal_summary(terminalreporter) -> None:
    """Print the table of the programs: what holds, what is refused and why."""
    reports = [r for outcome in ("passed", "failed") for r in terminalreporter.getreports(outcome)]
    rows = [value for r in reports for key, value in r.user_properties if key == "hvd-row"]
    if rows:
        terminalreporter.section("conversions, verified on two ranks")
        for row in sorted(rows):
            terminalreporter.write_line(row)
    for kind, found, planted in mutation_scores(terminalreporter):
        terminalreporter.write_line(f"mutants, {kind}: {found} of {planted} found")


def mutation_scores(terminalreporter: pytest.TerminalReporter) -> list[tuple[str, int, int]]:
    """Of each kind of mutant, how many were found and how many planted (a test's property `mutant`)."""
    planted = {
        outcome: [
            value
            for report in terminalreporter.getreports(outcome)
            for key, value in report.user_properties
            if key == "mutant"
        ]
        for outcome in ("passed", "failed")
    }
    kinds = sorted({*planted["passed"], *planted["failed"]})
    return [
        (kind, (found := planted["passed"].count(kind)), found + planted["failed"].count(kind))
        for kind in kinds
    ]
