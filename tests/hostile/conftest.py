"""Every test here is a try to do harm. A table tells what became of it, and what was left behind."""

from __future__ import annotations

import os
import subprocess
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

#: Names a test in the environment of everything that comes from it.
MARK = "JUPYTER_HVD_HOSTILE_TEST"
#: Seconds for what was begun to end, on a machine however busy; the table says how many it took.
PATIENCE = 60
#: Seconds for it to come to where a test begins.
BEGINNING = 600


@dataclass
class Aftermath:
    """What a test has tried, and what is left when it has ended.

    Attributes:
        tries: how many. seconds: until the user was told, or until all had ended; None where nothing was to tell.
        temporary: the folder of temporary files of all that the test starts.
    """

    temporary: Path
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    tries: int = 1
    seconds: float | None = None

    def processes(self) -> list[psutil.Process]:
        """The processes that come from this test, and are no zombies."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if process.pid != os.getpid() and process.environ().get(MARK) == self.mark:
                    found.append(process)
        # What gets a clean environment is known by its parent, or by the folder that it was told of.
        known = {p.pid for p in found}
        for process in psutil.process_iter():
            with suppress(psutil.Error, OSError):
                if str(self.temporary) in " ".join(process.cmdline()) and process.pid not in known:
                    found.append(process)
        return [p for p in found if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]

    def folders(self) -> list[Path]:
        return [path for path in self.temporary.glob("jupyter-hvd-*") if path.exists()]

    def wait_for(self, happened: Callable[[], bool], process: subprocess.Popen[str]) -> None:
        """Wait until something has happened, as long as a process is there that is to do it."""
        end = time.monotonic() + BEGINNING
        while not happened():
            assert process.poll() is None, "it has ended before"
            assert time.monotonic() < end
            time.sleep(0.05)

    def until_gone(self) -> float:
        """Waits for all that the test has started to end, and says how many seconds it took."""
        start = time.monotonic()
        while (self.processes() or self.folders()) and time.monotonic() - start < PATIENCE:
            time.sleep(0.1)
        return time.monotonic() - start


def listening(process: psutil.Process) -> int:
    """How many sockets a process listens on."""
    with suppress(psutil.Error):
        return sum(c.status == psutil.CONN_LISTEN for c in process.net_connections("inet"))
    return 0


@pytest.fixture(autouse=True)
def aftermath(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> Iterator[Aftermath]:
    """Sees to it that a test leaves no process, no listening socket and no folder behind."""
    found = Aftermath(tmp_path_factory.mktemp("temporary"))
    monkeypatch.setenv("TMPDIR", str(found.temporary))
    monkeypatch.setenv(MARK, found.mark)
    yield found
    found.until_gone()
    processes, folders = found.processes(), found.folders()
    sockets = sum(map(listening, processes))
    told = "" if found.seconds is None else f"{found.seconds:.1f}"
    name = (request.function.__doc__ or request.node.name).splitlines()[0].rstrip(".")
    case = f" ({request.node.callspec.id})" if hasattr(request.node, "callspec") else ""
    record_property(
        "hvd-hostile",
        f"| {name}{case} | {found.tries} | {told} | {len(processes)} | {sockets} | {len(folders)} |",
    )
    for process in processes:
        process.kill()
    assert not processes
    assert not folders


def pytest_terminal_summary(terminalreporter) -> None:
    reports = [
        r for group in terminalreporter.stats.values() for r in group if hasattr(r, "outcome")
    ]
    hostile = [r for r in reports if "tests/hostile" in getattr(r, "nodeid", "")]
    rows = [
        [value for key, value in report.user_properties if key == "hvd-hostile"]
        for report in hostile
        if report.when == "teardown"
    ]
    faults = [
        f"| {report.nodeid.rpartition('::')[2]} | **fault** | | | | |"
        for report in hostile
        if report.outcome == "failed"
    ]
    table = [*(row[0] for row in rows if row), *faults]
    if table:
        terminalreporter.section("hostile tries")
        head = ("| try | tries | seconds until told | processes left | sockets | folders |",)
        for line in (*head, "|---|---|---|---|---|---|", *sorted(table)):
            terminalreporter.write_line(line)
